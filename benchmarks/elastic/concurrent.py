#!/usr/bin/env python3
"""What trainer.concurrent_passes gains: steps of a recipe with several passes at the same time, against one after another.

Both sides have the same threads, batch and micro-batches, and the same results to the bit. They are run by turns; a figure is the median over
rounds of a ratio of medians over steps. Memory is the most that the process took.

    python3 benchmarks/elastic/concurrent.py [--micro-batch 4,16,64] [--concurrent 1,2] [--rounds 5]
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(ROOT / "benchmarks"))
import provenance  # noqa: E402


def measure(args, micro_batch, concurrent):
    """-> ms of a step, processor time of one in ms, MiB"""
    command = [args.fovea, "bench", "model", args.recipe, f"trainer.micro_batch_size={micro_batch}",
               f"trainer.concurrent_passes={concurrent}", "--mode", "train", "--dtype", args.dtype, "--device", args.device,
               "--threads", str(args.threads), "--batch-size", str(args.batch_size), "--steps", str(args.steps), "--json"]
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return result["step_ms"], result["cpu_ms"], result["peak_memory_bytes"] / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--recipe", default="recipes/fashion_mnist/quickstart.yaml")
    parser.add_argument("--micro-batch", default="4,16,64")
    parser.add_argument("--concurrent", default="1,2")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    sides = [int(number) for number in args.concurrent.split(",")]
    lines = [f"{provenance.line()} {args.recipe} in {args.dtype}, batches of {args.batch_size}, {args.threads} threads, {args.rounds} rounds "
             f"by turns, {args.steps} steps each.", "",
             "| micro-batch | at once | step, ms | of one at once | processor time, ms | of one at once | memory, MiB |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for micro_batch in (int(number) for number in args.micro_batch.split(",")):
        rounds = [[measure(args, micro_batch, side) for side in sides] for _ in range(args.rounds)]
        for i, side in enumerate(sides):
            step, spent, memory = (statistics.median(each[i][k] for each in rounds) for k in range(3))
            of_step, of_spent = (statistics.median(each[i][k] / each[0][k] for each in rounds) for k in range(2))
            lines.append(f"| {micro_batch} | {side} | {step:.1f} | {of_step:.3f} | {spent:.1f} | {of_spent:.3f} | {memory:.0f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
