#!/usr/bin/env python3
"""What each small recipe reaches on held-out data, over three seeds, beside a baseline that has learned nothing.

    python3 benchmarks/floors.py [--runs DIR] [--only NAME ...] [--seeds 1 2 3] [--full] [--write]

The recipes run shorter than they stand (the column "changed" says how), unless --full. What a run is held against: the
majority class, the best constant mask, the mean image, the best linear guess from it, or other runs. A run that has
ended in DIR is not trained again, one that was stopped goes on. The recipes of mni152/ need their data in data/mni152,
as their headers say.
"""

import argparse
import collections
import gzip
import itertools
import json
import math
import pathlib
import statistics
import subprocess
import sys

import numpy as np
import provenance

ROOT = provenance.ROOT
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
MNI = ROOT / "data/mni152"
MNI_CROP = 32  # SAP is evaluated on the middle of a slab


def idx_images(split):
    prefix = {"train": "train", "test": "t10k"}[split]
    data = gzip.open(FASHION / f"{prefix}-images-idx3-ubyte.gz").read()
    return np.frombuffer(data, np.uint8, offset=16).reshape(-1, 28, 28)


def idx_labels(split):
    prefix = {"train": "train", "test": "t10k"}[split]
    return np.frombuffer(gzip.open(FASHION / f"{prefix}-labels-idx1-ubyte.gz").read(), np.uint8, offset=8)


def majority_class():
    """Top-1 in percent of the class that is the most frequent in training."""
    most = np.bincount(idx_labels("train")).argmax()
    return 100.0 * float((idx_labels("test") == most).mean())


def nifti_labels(path):
    raw = path.read_bytes()
    dims = np.frombuffer(raw, "<i2", 8, 40)
    kind = {2: "u1", 4: "<i2", 8: "<i4", 16: "<f4", 512: "<u2"}[int(np.frombuffer(raw, "<i2", 1, 70)[0])]
    offset = int(np.frombuffer(raw, "<f4", 1, 108)[0])
    shape = dims[1:4].tolist()
    return np.frombuffer(raw, kind, math.prod(shape), offset).reshape(shape, order="F").astype(int)


def constant_mask(is_cropped):
    """The best mean Dice of the foreground classes that a mask of one class reaches."""
    scores = collections.defaultdict(list)
    for path in sorted((MNI / "val/labels").glob("*.nii")):
        labels = nifti_labels(path)
        if is_cropped:
            begins = [(side - MNI_CROP) // 2 for side in labels.shape]
            labels = labels[tuple(slice(begin, begin + MNI_CROP) for begin in begins)]
        for guess in (1, 2):
            count = (labels == guess).sum()
            scores[guess].append(2.0 * count / (count + labels.size) / 2)  # the other class: 0
    return max(statistics.mean(values) for values in scores.values())


def linear_guess_of_noise():
    """The loss of the best guess of the noise that is linear in each pixel and knows mean and variance of each.

    For x0 ~ (m, v) and x_t = sqrt(a) x0 + sqrt(1 - a) e it is e = sqrt(1 - a) (x_t - sqrt(a) m) / (a v + 1 - a), with a
    mean square error of a v / (a v + 1 - a); a after the cosine schedule of Nichol and Dhariwal (2021), 1,000 steps.
    """
    variance = (idx_images("train") / 127.5 - 1).reshape(60000, -1).var(axis=0)
    angle = (np.arange(1001) / 1000 + 0.008) / 1.008 * math.pi / 2
    kept = np.cos(angle) ** 2
    kept = np.cumprod(1 - np.minimum(1 - kept[1:] / kept[:-1], 0.999))[:, None]
    return float((kept * variance / (kept * variance + 1 - kept)).mean())


def short(steps, warmup):
    """A run of so many steps that is evaluated at its end."""
    return [f"trainer.max_steps={steps}", "trainer.max_epochs=null", f"schedule.warmup_steps={warmup}", "trainer.eval_every_epochs=0"]


Row = collections.namedtuple("Row", "name recipe short changed metric rises baseline baseline_name")
PROBE = ["model.class_token=true", "model.pos_embed=sincos", "trainer.freeze=[backbone]", "optim.name=adamw",
         "optim.lr=1e-2", "optim.weight_decay=0"]
CENTER = ("data.val.transforms=[{name: scale_intensity_range, a_min: 0, a_max: 255, b_min: -1, b_max: 1}, "
          f"{{name: center_spatial_crop, roi_size: {MNI_CROP}}}]")


def rows():
    def fashion(name, steps, warmup, changed=(), **more):
        kind = dict(metric="top1", rises=True, baseline=majority_class, baseline_name="majority class") | more
        return Row(f"fashion_mnist/{name}", f"fashion_mnist/{name}", short(steps, warmup), list(changed), **kind)

    mean_image = dict(metric="loss", rises=False, baseline="loss_mean_image", baseline_name="mean image")

    def mni(name, recipe, steps, warmup, is_cropped, changed=()):
        return Row(name, f"mni152/{recipe}", short(steps, warmup), list(changed), "dice", True, lambda: constant_mask(is_cropped),
                   "best constant mask")

    return [
        fashion("quickstart", 80, 20),
        fashion("vit", 50, 15),
        fashion("t2t_vit", 120, 30),
        fashion("adaptive_vit", 200, 40),
        fashion("mae", 200, 40, **mean_image),
        fashion("adaptive_mae", 120, 30, **mean_image),
        fashion("diffusion", 100, 20, ["task.num_samples=0"],
                metric="loss", rises=False, baseline=linear_guess_of_noise,
                baseline_name="best linear guess from mean and variance of each pixel"),
        Row("mni152/mae", "mni152/mae", short(60, 15), [], "loss", False, "loss_mean_image", "mean image"),
        mni("mni152/unetr", "unetr", 60, 10, False),
        mni("mni152/sap", "sap", 100, 20, True, [CENTER]),
        mni("mni152/unetr, patch 4, as sap", "unetr", 100, 20, True,
            ["model.encoder.patch_size=4", "optim.lr=1e-3", CENTER]),
        fashion("vit", 100, 20, PROBE + ["init.weights={mae}/weights.safetensors", "init.part=encoder"])._replace(
            name="probe of fashion_mnist/mae", baseline="probe of random weights",
            baseline_name="probe of random weights"),
        fashion("vit", 100, 20, PROBE)._replace(name="probe of random weights"),
    ]


def folder_name(name, seed):
    return "".join(c if c.isalnum() else "_" for c in name) + f"_seed{seed}"


def train(args, row, seed):
    """The metrics of the last evaluation of one run, and its steps."""
    folder = args.runs / folder_name(row.name, seed)
    mae = args.runs / folder_name("fashion_mnist/mae", seed)
    changes = row.changed + ([] if args.full else row.short)
    command = [args.fovea, "train", str(ROOT / f"recipes/{row.recipe}.yaml"), "--json", f"run.dir={folder}",
               f"run.seed={seed}", *(change.format(mae=mae) if "{mae}" in change else change for change in changes)]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{row.name}, seed {seed}: `{' '.join(command)}` ended with code {done.returncode}")
    return json.loads(done.stdout)


def table_row(args, row, results, baseline):
    values = [results[row.name, seed]["eval"][row.metric] for seed in sorted({s for n, s in results if n == row.name})]
    if baseline is None:
        verdict = "-"
    else:
        beats = [value > baseline if row.rises else value < baseline for value in values]
        verdict = "yes" if all(beats) else "**no**"
    changes = [] if args.full else row.short[:1]
    changes += [change for change in row.changed if change != CENTER]
    changed = ", ".join(changes) or "as it stands"
    return (f"| {row.name} | {changed} | {row.metric} | {', '.join(f'{value:.4g}' for value in values)} | "
            f"{statistics.mean(values):.4g} | {'-' if baseline is None else f'{baseline:.4g}'} | "
            f"{row.baseline_name if baseline is not None else '-'} | {verdict} |")


def baseline_of(row, results, seeds):
    if callable(row.baseline):
        return None if row.name == "probe of random weights" else row.baseline()
    if any(name == row.baseline for name, _ in results):  # another run: its best seed
        return max(results[row.baseline, seed]["eval"][row.metric] for seed in seeds)
    values = [results[row.name, seed]["eval"].get(row.baseline) for seed in seeds]
    return None if None in values else min(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--runs", type=pathlib.Path, default=ROOT / "runs/floors")
    parser.add_argument("--only", nargs="*", help="names of rows")
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--full", action="store_true", help="the recipes as they stand")
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results")
    args = parser.parse_args()
    chosen = [row for row in rows() if not args.only or row.name in args.only]
    if not chosen:
        parser.error(f"--only: found {args.only}, expected names out of {[row.name for row in rows()]}")
    results = {}
    for row, seed in itertools.product(chosen, args.seeds):
        results[row.name, seed] = train(args, row, seed)
        print(f"{row.name}, seed {seed}: {results[row.name, seed]['eval']}", file=sys.stderr, flush=True)
    head = f"`benchmarks/floors.py{' ' if sys.argv[1:] else ''}{' '.join(sys.argv[1:])}`"
    lines = ["# What the small recipes reach, against baselines that have learned nothing", "",
             f"{provenance.line()} Command: {head}.", "",
             "| recipe | changed | metric | over the seeds | mean | baseline | which | beats it with every seed |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    lines += [table_row(args, row, results, baseline_of(row, results, args.seeds)) for row in chosen]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        provenance.keep("floors", text)


if __name__ == "__main__":
    main()
