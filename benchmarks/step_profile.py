#!/usr/bin/env python3
"""Where the time of a step goes, against what the machine can do: `fovea bench model --profile`, kept with its day and commit.

Rounds of the cases by turns; of each case the round is kept whose step was the shortest, for on a shared machine that is the one
which measured the program.

    benchmarks/step_profile.py [--model vit_small_patch16_224] [--cases float32/train bfloat16/infer] [--rounds 2] [--write]
"""

import argparse
import os
import sys
import tempfile

import bench_model
import provenance

ROOT = provenance.ROOT
CASES = ["float32/train", "float32/infer", "bfloat16/train", "bfloat16/infer"]


SHOWN = 0.01  # share of the step from which an operation has a line


def measure(args, case, folder):
    dtype, mode = case.split("/")
    command = [*bench_model.command(args.fovea, args.model, dtype, mode, args), "--profile", "--trace", folder + "/trace.json"]
    return bench_model.run_json(command)


def table_of(case, result):
    """One case: an operation a line, the largest first; x floor: its time over the least that this machine could take."""
    step = result["step_ms"]
    lines = [f"## {case.replace('/', ', ')}: {step:.1f} ms", "",
             f"Products at {result['gemm_gflops_per_second']:.0f} GFLOP/s, memory at {result['memory_gigabytes_per_second']:.1f} GB/s.", "",
             "| operation | calls | ms | share | GFLOP | MB | floor, ms | times the floor |", "|" + " --- |" * 8]
    rest = floors = 0.0
    for row in result["operations"]:
        floors += row["floor_ms"]
        if row["share"] < SHOWN:
            rest += row["ms"]
            continue
        ratio = f"{row['ms'] / row['floor_ms']:.1f}" if row["floor_ms"] > 0 else "-"
        lines.append(f"| {row['name']} | {row['calls']} | {row['ms']:.1f} | {100 * row['share']:.1f} % | {row['gflops']:.1f} | "
                     f"{row['megabytes']:.0f} | {row['floor_ms']:.1f} | {ratio} |")
    for name, ms in (("smaller ones", rest), ("between operations", result["outside_ms"])):
        lines.append(f"| {name} | | {ms:.1f} | {100 * ms / step:.1f} % | | | | |")
    return [*lines, f"| the step | | {step:.1f} | 100 % | | | {floors:.1f} | {step / floors:.1f} |", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    found = {case: [] for case in args.cases}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for case in args.cases:
                result = measure(args, case, folder)
                print(f"round {turn + 1}, {case}: {result['step_ms']:.1f} ms", file=sys.stderr, flush=True)
                found[case].append(result)
    lines = [f"# {args.model}: where the time of a step goes", "",
             f"{provenance.line()} {args.threads} threads, batch {args.batch_size}. Command: `benchmarks/step_profile.py --model {args.model} "
             f"--batch-size {args.batch_size} --threads {args.threads} --rounds {args.rounds} --steps {args.steps}`; of each case the round with "
             "the shortest step. Floor: its products at the rate of the machine's best product, or its bytes at the rate of memory, whichever "
             "is longer; both are measured in the same process.", ""]
    for case, results in found.items():
        lines += table_of(case, min(results, key=lambda result: result["step_ms"]))
    provenance.show(args, provenance.name_for("step_profile", args.model, "vit_small_patch16_224"), lines)


if __name__ == "__main__":
    main()
