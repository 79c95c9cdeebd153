#!/usr/bin/env python3
"""A training step of fovea.create_model in a loop of torch's, by turns with the same step of the program (`fovea bench model`): forward,
cross-entropy, backward, AdamW, on one batch of noise. `compiled` is the model as the one operator that torch.compile sees (aot_eager).

    cmake --build build/release --target fovea fovea_python
    python benchmarks/python_step.py [--rounds 7] [--threads 1] [--dtype float32]

Run by the Python whose torch fovea was built with. Each window is a process of its own, so nothing of another is there meanwhile; rounds go
over all of them, and each round's ratio is of windows that stand side by side.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import time

import bench_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = ("program", "Python", "compiled")
BARS = {"Python": 0.97}  # of the program's speed


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--package", default=str(ROOT / "build/release/python"), help="folder of the package fovea")
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--work", choices=CASES[1:], help=argparse.SUPPRESS)
    return parser.parse_args()


def work(args):
    """One window in this process: prints the median step, in ms."""
    import torch
    import fovea
    torch.set_num_threads(args.threads)
    model = fovea.create_model(args.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    images = torch.randn(args.batch_size, *model.pretrained_cfg["input_size"])
    labels = torch.arange(args.batch_size) % model.num_classes
    call = torch.compile(model, backend="aot_eager", fullgraph=True) if args.work == "compiled" else model
    times = []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bfloat16"):
            logits = call(images)
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"step_ms": statistics.median(times[args.warmup:])}))


def window(args, case):
    """ms a step."""
    if case == "program":
        command = bench_model.command(args.fovea, args.model, args.dtype, "train", args, device="cpu")
    else:
        command = [sys.executable, __file__, "--work", case, "--model", args.model, "--batch-size", args.batch_size, "--threads", args.threads,
                   "--dtype", args.dtype, "--steps", args.steps, "--warmup", args.warmup]
    path = os.pathsep.join(filter(None, (args.package, os.environ.get("PYTHONPATH"))))
    env = {**os.environ, "OMP_NUM_THREADS": str(args.threads), "PYTHONPATH": path}
    return bench_model.run_json(command, env=env)["step_ms"]


def main():
    args = options()
    if args.work:
        work(args)
        return
    times = {case: [] for case in CASES}
    for number in range(args.rounds):
        for case in CASES:
            times[case].append(window(args, case))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    for case, found in times.items():
        ratio = statistics.median(program / own for program, own in zip(times["program"], found))
        bar = f" (bar: {BARS[case]})" if case in BARS else ""
        print(f"{case:8} {statistics.median(found):9.1f} ms a step ({min(found):.1f} to {max(found):.1f}); {ratio:.3f} of the program's "
              f"speed, median of rounds{bar}")


if __name__ == "__main__":
    main()
