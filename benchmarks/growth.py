#!/usr/bin/env python3
"""Cost of a step of a ViT as it grows along one axis at a time: tokens, width, depth, batch.

Around one model (width 384, depth 6, 196 tokens, batch 8) each axis is varied alone; every point is `fovea bench model --json` in a
process of its own, the points of all axes by turns over the rounds. Beside the rates stands how the time grows from point to point:
the exponent e of time ~ size^e, 1 where twice the size takes twice the time.

    benchmarks/growth.py [--mode train] [--dtype float32] [--rounds 3] [--write]
"""

import argparse
import collections
import math
import os
import pathlib
import statistics
import sys
import tempfile

import bench_model
import plot
import provenance

ROOT = provenance.ROOT
PATCH = 16
HEAD_DIM = 64
Point = collections.namedtuple("Point", "tokens width depth batch")
CENTER = Point(tokens=196, width=384, depth=6, batch=8)
AXES = {"tokens": [49, 100, 196, 400, 784, 1600], "width": [192, 384, 768, 1152], "depth": [2, 4, 6, 12, 24],
        "batch": [1, 2, 4, 8, 16, 32]}
UNITS = {"tokens": "tokens of an image", "width": "width", "depth": "blocks", "batch": "images of a batch"}


def recipe_text(point):
    """Square images of as many patches as asked."""
    return bench_model.classifier_recipe(
        {"img_size": PATCH * math.isqrt(point.tokens), "patch_size": PATCH, "in_chans": 3, "num_classes": 1000, "class_token": False,
         "global_pool": "avg", "embed_dim": point.width, "depth": point.depth, "num_heads": point.width // HEAD_DIM})


def measure(args, folder, point):
    recipe = folder / "growth.yaml"
    recipe.write_text(recipe_text(point))
    return bench_model.run_json(bench_model.command(args.fovea, recipe, args.dtype, args.mode, args, batch_size=point.batch))


def points_of(axis, args):
    sizes = AXES[axis][:2] if args.short else AXES[axis]
    return [CENTER._replace(**{axis: size}) for size in sizes]


def median(found, key):
    return statistics.median(result[key] for result in found)


def axis_lines(axis, points, results):
    lines = [f"## {axis}", "", f"| {UNITS[axis]} | step, ms | img/s | GFLOP/s | of the GEMM peak | peak memory, MiB | time ~ size^e |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    before = None
    for point in points:
        found = results[point]
        size, step = getattr(point, axis), median(found, "step_ms")
        exponent = "" if before is None else f"{math.log(step / before[1]) / math.log(size / before[0]):.2f}"
        lines.append(f"| {size} | {step:.1f} | {median(found, 'images_per_second'):.1f} | {median(found, 'gflops_per_second'):.0f} | "
                     f"{100 * median(found, 'gemm_share'):.0f} % | {max(r['peak_memory_bytes'] for r in found) / 2**20:.0f} | {exponent} |")
        before = (size, step)
    return [*lines, ""]


def picture(axes, results):
    """Step time and memory over size, both relative to the first point of the axis, on two logarithmic axes."""
    panels = []
    for axis, points in axes.items():
        sizes = [getattr(point, axis) for point in points]
        lines = {}
        for key, title in (("step_ms", "time of a step"), ("peak_memory_bytes", "peak memory")):
            values = [median(results[point], key) for point in points]
            lines[title] = [(size, value / values[0]) for size, value in zip(sizes, values)]
        lines["in proportion"] = [(size, size / sizes[0]) for size in sizes]
        panels.append(plot.Panel(title=UNITS[axis], x_label=UNITS[axis], y_label="times the first", lines=lines, is_log=True,
                                 dashed=("in proportion",)))
    return plot.svg(panels)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--mode", choices=["train", "infer"], default="train")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--axes", nargs="+", choices=list(AXES), default=list(AXES))
    parser.add_argument("--short", action="store_true", help="two points an axis, to see that it runs")
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    axes = {axis: points_of(axis, args) for axis in args.axes}
    results = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for point in dict.fromkeys(point for points in axes.values() for point in points):
                results[point].append(measure(args, pathlib.Path(folder), point))
                print(f"round {turn + 1}: {point}: {results[point][-1]['step_ms']:.1f} ms", file=sys.stderr, flush=True)
    name = f"growth_{args.mode}_{args.dtype}"
    command = (f"benchmarks/growth.py --mode {args.mode} --dtype {args.dtype} --threads {args.threads} --rounds {args.rounds} --steps "
               f"{args.steps} --warmup {args.warmup} --axes {' '.join(args.axes)}{' --short' if args.short else ''}")
    mode = "Training" if args.mode == "train" else "Inference"
    lines = [f"# {mode} of a ViT as it grows, {args.dtype}, {'CPU' if args.device == 'cpu' else args.device}", "",
             f"{provenance.line()} {args.threads} threads. Around width {CENTER.width}, depth {CENTER.depth}, {CENTER.tokens} tokens of "
             f"{PATCH} x {PATCH} pixels, batch {CENTER.batch}, heads of {HEAD_DIM}; one of these is varied at a time. Command: `{command}`. "
             f"Medians of {args.rounds} rounds of {args.steps} steps; the last column compares a point with the one above it.", ""]
    for axis, points in axes.items():
        lines += axis_lines(axis, points, results)
    provenance.show(args, name, lines, picture(axes, results))


if __name__ == "__main__":
    main()
