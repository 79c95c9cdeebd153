#!/usr/bin/env python3
"""A training step with drop path that skips the work of dropped samples (model.drop_path_skip) against one that masks it.

By turns, each measurement a process of its own; the rate is that of the last block, earlier ones scale linearly.

    benchmarks/drop_path.py [--preset vit_small_patch16_224] [--rates 0.1 0.2 0.4] [--rounds 5] [--write]
"""

import argparse
import collections
import os
import pathlib
import statistics
import sys
import tempfile

import bench_model
import provenance
import torch_peer

ROOT = provenance.ROOT


def measure(args, folder, rate, skips):
    recipe = folder / "drop_path.yaml"
    recipe.write_text(bench_model.classifier_recipe({"preset": args.preset, "drop_path_rate": rate, "drop_path_skip": skips}))
    return bench_model.run_json(bench_model.command(args.fovea, recipe, args.dtype, "train", args, device="cpu", warmup=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--preset", default="vit_small_patch16_224")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.1, 0.2, 0.4])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    found = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds):
            for rate in args.rates:
                pair = {}
                for skips in ((False, True) if turn % 2 == 0 else (True, False)):
                    pair[skips] = measure(args, pathlib.Path(folder), rate, skips)
                found[rate].append(pair)
                print(f"rate {rate}: masked {pair[False]['step_ms']:.0f} ms, skipped {pair[True]['step_ms']:.0f} ms", file=sys.stderr,
                      flush=True)
    lines = [f"# {args.preset}: drop path that skips what it drops, {args.dtype}", "",
             f"{provenance.line()} {args.threads} threads, batch {args.batch_size}. Command: `benchmarks/drop_path.py --preset {args.preset} "
             f"--rates {' '.join(map(str, args.rates))} --dtype {args.dtype} --batch-size {args.batch_size} --threads {args.threads} --rounds "
             f"{args.rounds} --steps {args.steps}`. Medians of {args.rounds} rounds of {args.steps} steps by turns; the ratio is masked over "
             "skipped of a round, above 1 where skipping is faster, in brackets the range. On average over the blocks half the rate is dropped.", "",
             "| rate | masked, ms | skipped, ms | ratio | by processor time | peak memory masked / skipped |", "| --- | --- | --- | --- | --- | --- |"]
    for rate, pairs in found.items():
        times = [statistics.median(pair[skips]["step_ms"] for pair in pairs) for skips in (False, True)]
        ratios = [torch_peer.ratio_text(pair[False][key] / pair[True][key] for pair in pairs) for key in ("step_ms", "cpu_ms")]
        memory = [max(pair[skips]["peak_memory_bytes"] for pair in pairs) / 2**20 for skips in (False, True)]
        lines.append(f"| {rate} | {times[0]:.0f} | {times[1]:.0f} | {ratios[0]} | {ratios[1]} | {memory[0]:.0f} / {memory[1]:.0f} MiB |")
    provenance.show(args, f"drop_path_{args.preset}_{args.dtype}", lines)


if __name__ == "__main__":
    main()
