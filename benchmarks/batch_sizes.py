#!/usr/bin/env python3
"""How much of its rate `Predictor` has with few images at a time: images a second of each batch size over those of the largest.

A `Predictor` for each size stands loaded in a process of its own, and they take turns of half a second or so, so that what slows the machine
for longer slows all; a ratio is the median over the rounds.

    cmake --build --preset release --target fovea bench_predictor
    python3 benchmarks/batch_sizes.py [--models vit_small_patch16_224 ...] [--batches 1 4 32] [--dtypes float32 bfloat16 int8] [--write]

Its Python needs numpy and safetensors.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import bench_model
import provenance
import vs_openvino
from timed_worker import predictor_worker


def race(args, model, weights, shape, dtype, folder):
    """-> a list of rounds, each a result by batch size."""
    import numpy as np

    workers = {}
    for batch in args.batches:
        images = folder / f"batch_{batch}.npy"
        np.save(images, np.random.default_rng(2).standard_normal((batch, *shape)).astype(np.float32))
        target = vs_openvino.target_of(model, folder)
        workers[batch] = predictor_worker(args.predictor, target, weights, args.threads, dtype, images)
    for worker in workers.values():
        worker.measure(args.seconds)
    rounds = [{batch: workers[batch].measure(args.seconds) for batch in bench_model.in_turn(workers, turn)} for turn in range(args.rounds)]
    for worker in workers.values():
        worker.close()
    print(f"{model} {dtype}: measured", file=sys.stderr, flush=True)
    return rounds


def image_ms(measured, batch, which):
    """which: of vs_openvino.batch_ms, for one image."""
    return vs_openvino.batch_ms(measured)[which] / batch


def row(args, model, dtype, rounds):
    largest = max(args.batches)
    cells = [model, dtype]
    for batch in args.batches:
        rate = 1e3 * batch / vs_openvino.percentile(rounds, batch, 0.5)
        shares = []
        for which in (0, 1):
            times = [(image_ms(turn[largest], largest, which), image_ms(turn[batch], batch, which)) for turn in rounds]
            shares.append(bench_model.middle_half(all_of / one for all_of, one in times))
        (median, low, high), (by_processor, *_) = shares
        cells.append(f"{rate:.1f}" if batch == largest else f"{rate:.1f}: {median:.2f} ({low:.2f} to {high:.2f}), {by_processor:.2f}")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(provenance.ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--predictor", default=str(provenance.ROOT / "build/release/benchmarks/bench_predictor"))
    parser.add_argument("--models", nargs="+", default=vs_openvino.MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 32])
    parser.add_argument("--dtypes", nargs="+", choices=vs_openvino.HAS_DTYPE["fovea"], default=["float32", "bfloat16", "int8"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    args.device = "cpu"
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    head = ["model", "dtype", *(f"{batch} at a time" for batch in args.batches)]
    lines = ["# Inference on a CPU: few images and many", "",
             f"{provenance.line()} {args.threads} threads, turns of {args.seconds:g} s, {args.rounds} each.", "",
             f"Images a second, of the median batch; what share that is of the rate of {max(args.batches)} at a time, by the clock, the median "
             "over the rounds and the middle half of them, and by processor time.", "",
             "| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in args.models:
            weights, shape = vs_openvino.save_weights(args, model, folder, env)
            lines += [row(args, model, dtype, race(args, model, weights, shape, dtype, folder)) for dtype in args.dtypes]
    provenance.show(args, "batch_sizes", lines)


if __name__ == "__main__":
    main()
