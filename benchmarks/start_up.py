#!/usr/bin/env python3
"""Seconds from the start of a process to the end of its first training step, and to its first prediction.

`fovea train` on a folder of images and `fovea predict` of one image with weights from a file, against the shortest Python script
with timm that does the same: eager, and through torch.compile with what it compiled before in its cache. Rounds alternate between
them. The step's end is the moment when its loss can be read: the line of metrics.jsonl, the script's line of output; that of a
prediction is its line of output.

    python3 benchmarks/start_up.py [--model vit_base_patch16_224] [--batch-size 1] [--peers eager compile] [--write]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import bench_model
import provenance
import torch_peer

ROOT = provenance.ROOT
NUM_CLASSES = 1000
WORKS = ["train", "predict"]
TITLES = {"train": "first training step", "predict": "first prediction"}


def make_photos(folder, count):
    """JPEGs of noise in two classes."""
    import numpy
    from PIL import Image

    random = numpy.random.default_rng(0)
    for i in range(count):
        path = folder / f"class{i % 2}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (256, 256, 3), dtype=numpy.uint8)).save(path)


def write_weights(args, path):
    import timm
    from safetensors.torch import save_file

    save_file({name: value.contiguous() for name, value in timm.create_model(args.model).state_dict().items()}, path)


def recipe_text(args, folder):
    """JSON is YAML."""
    transforms = [{"name": "resize", "size": 256}, {"name": "center_crop", "size": 224},
                  {"name": "normalize", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}]
    return json.dumps({
        "run": {"dir": str(folder / "run")}, "device": {"type": "cpu", "dtype": args.dtype, "threads": args.threads},
        "model": {"name": "vit", "preset": args.model, "num_classes": 2}, "task": {"name": "classification"},
        "data": {"train": {"format": "folder", "path": str(folder / "photos"), "transforms": transforms},
                 "global_batch_size": args.batch_size, "threads": 1},
        "optim": {"name": "adamw", "lr": 1e-3}, "schedule": {"name": "constant"}, "trainer": {"max_steps": 2},
        "checkpoint": {"every_steps": 1000000}, "log": {"every_steps": 1, "tensorboard": False}})


def peer_worker(args):
    import PIL.Image
    import timm
    import torch
    from timm.data import create_transform

    torch.set_num_threads(args.threads)
    folder = pathlib.Path(args.folder)
    is_training = args.mode == "train"
    model = timm.create_model(args.model, num_classes=2 if is_training else NUM_CLASSES)
    transform = create_transform(model.default_cfg["input_size"])
    paths = sorted((folder / "photos").rglob("*.jpg"))[:args.batch_size if is_training else 1]
    images = torch.stack([transform(PIL.Image.open(path).convert("RGB")) for path in paths])
    with torch_peer.autocast("cpu", args.dtype):
        if is_training:
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
            labels = torch.tensor([int(path.parent.name[-1]) for path in paths])
            loss = torch.nn.functional.cross_entropy(torch_peer.compiled(model, args.worker)(images), labels)
            loss.backward()
            optimizer.step()
            print(loss.item(), flush=True)
            return
        from safetensors.torch import load_file

        model.load_state_dict(load_file(folder / "weights.safetensors"))
        with torch.inference_mode():
            print(torch_peer.compiled(model.eval(), args.worker)(images).float().softmax(1).topk(5), flush=True)


def seconds_until(command, env, is_done):
    """From the start of a process until is_done(process); it is ended then, before it writes checkpoints that nobody reads."""
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    has_result = is_done(process)
    seconds = time.perf_counter() - start
    if has_result:
        process.kill()
    _, errors = process.communicate()
    if not has_result:
        sys.exit(f"{' '.join(map(str, command))}\nended with {process.returncode}:\n{errors.decode()[-2000:]}")
    return seconds


def first_line(process):
    return bool(process.stdout.readline())


def line_of(path):
    def is_done(process):
        while not (path.exists() and path.stat().st_size > 0):
            if process.poll() is not None:
                return False
            time.sleep(0.001)
        return True
    return is_done


def measure(args, env, folder, work, side):
    if side != "fovea":
        command = [sys.executable, __file__, "--worker", side, "--mode", work, "--model", args.model, "--dtype", args.dtype, "--threads",
                   args.threads, "--batch-size", args.batch_size, "--folder", folder]
        return seconds_until(command, env, first_line)
    if work == "predict":
        photo = sorted((folder / "photos").rglob("*.jpg"))[0]
        return seconds_until([args.fovea, "predict", args.model, photo, "--weights", folder / "weights.safetensors", "--dtype", args.dtype,
                              "--device", "cpu", "--threads", args.threads], env, first_line)
    run = folder / "run"
    subprocess.run(["rm", "-rf", run], check=True)
    return seconds_until([args.fovea, "train", folder / "recipe.yaml"], env, line_of(run / "metrics.jsonl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--peers", nargs="+", choices=["eager", "compile"], default=["eager"])
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--batch-size", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    provenance.add_report_arguments(parser)
    for name in ("--worker", "--mode", "--folder"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        peer_worker(args)
        return
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    sides = ["fovea", *args.peers]
    found = {(work, side): [] for work in WORKS for side in sides}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_photos(folder / "photos", max(2, 2 * args.batch_size))
        write_weights(args, folder / "weights.safetensors")
        (folder / "recipe.yaml").write_text(recipe_text(args, folder))
        for turn in range(-1, args.rounds):  # the first round fills caches: the disk's, and that of torch.compile
            for work in WORKS:
                for side in bench_model.in_turn(sides, turn):
                    seconds = measure(args, env, folder, work, side)
                    if turn >= 0:
                        found[work, side].append(seconds)
                    print(f"round {turn + 1}, {TITLES[work]}, {side}: {seconds:.2f} s", file=sys.stderr, flush=True)
    report(args, sides, found)


def report(args, sides, found):
    import timm
    import torch

    lines = [f"# {args.model}: from the start of the process to the first result", "",
             f"{provenance.line()} {args.threads} threads, {args.dtype}, batch {args.batch_size} in training, 1 in prediction. torch "
             f"{torch.__version__}, timm {timm.__version__}. Command: `benchmarks/start_up.py --model {args.model} --dtype {args.dtype} --peers "
             f"{' '.join(args.peers)} --batch-size {args.batch_size} --threads {args.threads} --rounds {args.rounds}`. Seconds, medians of "
             f"{args.rounds} rounds by turns after one that fills the caches, in brackets their range; the ratio is that of a round's times.",
             "", "| until the | Fovea | " + " | ".join(f"timm, {torch_peer.TITLES[peer]} | times Fovea's" for peer in args.peers) + " |",
             "|" + " --- |" * (2 + 2 * len(args.peers))]
    for work in WORKS:
        cells = [TITLES[work], torch_peer.ratio_text(found[work, "fovea"])]
        for peer in args.peers:
            cells += [torch_peer.ratio_text(found[work, peer]),
                      torch_peer.ratio_text(b / a for a, b in zip(found[work, "fovea"], found[work, peer]))]
        lines.append("| " + " | ".join(cells) + " |")
    provenance.show(args, f"{provenance.name_for('start_up', args.model, 'vit_base_patch16_224')}_{args.dtype}", lines)


if __name__ == "__main__":
    main()
