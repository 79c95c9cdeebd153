#!/usr/bin/env python3
"""Training curves in bfloat16, float16 and FP8 against float32, beside what another seed changes.

A recipe runs shortly with each dtype and seed. A seed means the same weights at step 0, samples and drops in every dtype, so that a
curve can be held against that of float32 with its own seed; how far float32's own curves are from each other is the noise. FP8 is
device.fp8 with activations in bfloat16; `--against bfloat16` holds the others against that. saved_bfloat16 is float32 with what backward
finds of the activations in bfloat16. A run that has ended in DIR is not trained again.

    benchmarks/dtype_curves.py [--recipe recipes/fashion_mnist/quickstart.yaml] [--steps 150] [--seeds 1 2 3] [--runs DIR] [--write]
    benchmarks/dtype_curves.py --against bfloat16 --dtypes fp8_current fp8_delayed
"""

import argparse
import collections
import itertools
import json
import pathlib
import statistics
import subprocess
import sys

import plot
import provenance

ROOT = provenance.ROOT
KEYS = {"float32": ["device.dtype=float32"], "bfloat16": ["device.dtype=bfloat16"], "float16": ["device.dtype=float16"],
        "saved_bfloat16": ["device.dtype=float32", "device.saved_activations=bfloat16"],
        "fp8_current": ["device.dtype=bfloat16", "device.fp8=current"],
        "fp8_delayed": ["device.dtype=bfloat16", "device.fp8=delayed"]}


def train(args, dtype, seed):
    """-> (by step, the training loss of the steps up to it; the last evaluation; skipped steps)"""
    folder = args.runs / f"{args.recipe.stem}_{dtype}_seed{seed}_{args.steps}"
    command = [args.fovea, "train", args.recipe, "--json", f"run.dir={folder}", f"run.seed={seed}", *KEYS[dtype],
               f"device.threads={args.threads}", f"trainer.max_steps={args.steps}", "trainer.max_epochs=null",
               f"schedule.warmup_steps={max(1, args.steps // 5)}", "trainer.eval_every_epochs=0", f"log.every_steps={args.every}",
               *args.set]
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    curve, skipped = {}, 0
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["split"] != "train":
            continue
        skipped += int(record.get("skipped_steps", 0))
        if "loss" in record:
            curve[record["step"]] = record["loss"]
    return curve, json.loads(done.stdout)["eval"], skipped


def middle(values):
    return statistics.mean(values)


def spread(values):
    return statistics.stdev(values) if len(values) > 1 else 0.0


def common_steps(results):
    return sorted(set.intersection(*(set(curve) for curve, _, _ in results.values())))


def differences(args, results, dtype, steps):
    """By step: the mean over the seeds of a curve minus that of the reference with the same seed."""
    return {step: middle([results[dtype, seed][0][step] - results[args.against, seed][0][step] for seed in args.seeds])
            for step in steps}


def noise(args, results, steps):
    """By step: the standard deviation of the reference's loss over the seeds."""
    return {step: spread([results[args.against, seed][0][step] for seed in args.seeds]) for step in steps}


def rows(args, results, steps):
    floor = noise(args, results, steps)
    last = steps[-max(1, len(steps) // 3):]  # of the curves, where they are flat
    reference = {key: [results[args.against, seed][1][key] for seed in args.seeds] for key in ("loss", args.metric)}
    for dtype in args.dtypes:
        cells = [dtype]
        for key in ("loss", args.metric):
            values = [results[dtype, seed][1][key] for seed in args.seeds]
            cells.append(f"{middle(values):.4g} ({', '.join(f'{value:.4g}' for value in values)})")
        if dtype == args.against:
            cells += ["", f"{middle([floor[step] for step in last]):.4f} between seeds", "", ""]
        else:
            by_step = differences(args, results, dtype, steps)
            off = middle([by_step[step] for step in last])
            gap = middle([results[dtype, seed][1]["loss"] for seed in args.seeds]) - middle(reference["loss"])
            is_within = abs(gap) <= spread(reference["loss"]) and abs(off) <= middle([floor[step] for step in last])
            cells += [f"{gap:+.4f}", f"{off:+.4f}", "yes" if is_within else "**no**",
                      str(sum(results[dtype, seed][2] for seed in args.seeds))]
        yield "| " + " | ".join(cells) + " |"


def picture(args, results, steps):
    curves = plot.Panel("training loss, mean and range over the seeds", "step", "loss", {}, {})
    for dtype in args.dtypes:
        of_seeds = [results[dtype, seed][0] for seed in args.seeds]
        curves.lines[dtype] = [(step, middle([curve[step] for curve in of_seeds])) for step in steps]
        curves.bands[dtype] = [(step, min(c[step] for c in of_seeds), max(c[step] for c in of_seeds)) for step in steps]
    floor = noise(args, results, steps)
    own = f"{args.against}, deviation between seeds"
    off = plot.Panel(f"loss minus that of {args.against}, same seed", "step", "loss", {own: [(s, 0.0) for s in steps]},
                     {own: [(s, -floor[s], floor[s]) for s in steps]})
    for dtype in args.dtypes[1:]:
        off.lines[dtype] = list(differences(args, results, dtype, steps).items())
    return plot.svg([curves, off])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--recipe", type=pathlib.Path, default=ROOT / "recipes/fashion_mnist/quickstart.yaml")
    parser.add_argument("--runs", type=pathlib.Path, default=ROOT / "runs/dtype_curves")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--against", choices=KEYS, default="float32", help="the reference")
    parser.add_argument("--dtypes", nargs="+", choices=KEYS, default=list(KEYS), help="what is held against it")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--every", type=int, default=5, help="steps averaged in one point of a curve")
    parser.add_argument("--metric", default="top1", help="of the evaluation, beside the loss")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--set", nargs="*", default=[], help="further keys of the recipe, such as data.global_batch_size=64")
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    args.dtypes = [args.against, *(dtype for dtype in args.dtypes if dtype != args.against)]
    results = collections.OrderedDict()
    for seed, dtype in itertools.product(args.seeds, args.dtypes):
        results[dtype, seed] = train(args, dtype, seed)
        print(f"{dtype}, seed {seed}: {results[dtype, seed][1]}", file=sys.stderr, flush=True)
    steps = common_steps(results)
    recipe = args.recipe.resolve()
    shown = recipe.relative_to(ROOT) if recipe.is_relative_to(ROOT) else recipe
    more = f" --set {' '.join(args.set)}" if args.set else ""
    lines = [f"# Training curves by dtype: {shown}", "",
             f"{provenance.line()} Command: `benchmarks/dtype_curves.py --recipe {shown} --steps {args.steps} --every {args.every} --seeds "
             f"{' '.join(map(str, args.seeds))} --metric {args.metric} --against {args.against} --dtypes {' '.join(args.dtypes[1:])}{more}`.", "",
             f"Of each dtype: the loss and {args.metric} of the last evaluation, mean over the seeds and each of them; its loss minus that of "
             f"{args.against}; the training loss minus that of {args.against} with the same seed over the last third of the steps; "
             f"whether both are within one standard deviation of {args.against} over the seeds; steps that the loss scale left out, of all seeds.", "",
             f"| dtype | loss | {args.metric} | loss - {args.against} | training loss - {args.against} | within the noise | left out |",
             "| --- | --- | --- | --- | --- | --- | --- |", *rows(args, results, steps)]
    provenance.show(args, f"dtype_curves_{args.recipe.stem}_against_{args.against}", lines, picture(args, results, steps))


if __name__ == "__main__":
    main()
