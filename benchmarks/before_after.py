"""One change of Fovea: `bench model` of two binaries by turns, in one run on one machine.

    benchmarks/before_after.py BEFORE AFTER [--rounds 7] [--cases bfloat16/train ...] [--note "..."] [--write NAME]

Each measurement is a process of its own. The ratio is that of the rounds' pairs, by the clock on the wall and by processor time,
which other programs hardly change: above 1, AFTER is faster.
"""

import argparse
import os
import statistics
import sys

import bench_model
import provenance
import torch_peer

CASES = ["float32/train", "bfloat16/train", "float32/infer", "bfloat16/infer"]


def measure(args, binary, case):
    dtype, mode = case.split("/")
    return bench_model.run_json(bench_model.command(binary, args.model, dtype, mode, args, device="cpu"))


def row(case, rounds):
    def of(side, key):
        return statistics.median(pair[side][key] for pair in rounds)

    def ratio(key):
        return torch_peer.ratio_text(before[key] / after[key] for before, after in rounds)

    memory = [max(pair[side]["peak_memory_bytes"] for pair in rounds) / 2**20 for side in (0, 1)]
    return (f"| {case.replace('/', ' ')} | {of(0, 'step_ms'):.0f} / {of(1, 'step_ms'):.0f} | {of(0, 'cpu_ms'):.0f} / "
            f"{of(1, 'cpu_ms'):.0f} | {ratio('step_ms')} | {ratio('cpu_ms')} | {memory[0]:.0f} / {memory[1]:.0f} MiB |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=CASES, choices=CASES)
    parser.add_argument("--note", default="", help="what changed, for the head of the table")
    parser.add_argument("--write", help="keep the table in benchmarks/results under this name")
    args = parser.parse_args()
    rounds = {case: [] for case in args.cases}
    for turn in range(args.rounds):
        for case in args.cases:
            # Who is first changes, so that neither always follows the other.
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            pair = [None, None]
            for side in order:
                pair[side] = measure(args, (args.before, args.after)[side], case)
            rounds[case].append(pair)
            print(f"{case}: {pair[0]['cpu_ms']:.0f} -> {pair[1]['cpu_ms']:.0f} ms of processor time, "
                  f"{pair[0]['step_ms']:.0f} -> {pair[1]['step_ms']:.0f} on the wall", file=sys.stderr, flush=True)
    lines = [f"# {args.model}: before and after", "", f"{provenance.line()} {args.threads} threads, batch {args.batch_size}. {args.note}".rstrip(), "",
             f"Command: `benchmarks/before_after.py BEFORE AFTER --model {args.model} --batch-size {args.batch_size} --threads {args.threads} --rounds "
             f"{args.rounds} --steps {args.steps} --warmup {args.warmup} --cases {' '.join(args.cases)}`. Medians of {args.rounds} "
             "rounds; ratios of the rounds' pairs, in brackets their range.", "",
             "| case | step, ms | processor time, ms | ratio | by processor time | peak memory |",
             "| --- | --- | --- | --- | --- | --- |"]
    lines += [row(case, rounds[case]) for case in args.cases]
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        provenance.keep(args.write, text)


if __name__ == "__main__":
    main()
