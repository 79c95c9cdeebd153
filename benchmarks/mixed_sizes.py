#!/usr/bin/env python3
"""A training step on images of mixed sizes, packed into one sequence (model.patching: packed), against one that pads every image to the
largest grid of the batch.

By turns in one process, by processor time; the images are noise. A mix is the least and the largest number of patches that an image may
have.

    benchmarks/mixed_sizes.py [--model vit_tiny_patch16_224] [--mixes 196,196 49,196] [--rounds 5] [--write]
"""

import argparse
import statistics

import bench_model
import provenance
import torch_peer

ROOT = provenance.ROOT


def measure(args, mix):
    return bench_model.run_json([args.program, args.model, args.dtype, *map(str, (args.threads, args.batch_size, *mix, args.rounds,
                                                                                 args.steps))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/benchmarks/bench_mixed_sizes"))
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--mixes", nargs="+", default=["196,196", "49,196", "16,196"])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    lines = [f"# {args.model}: images of mixed sizes packed and padded, {args.dtype}", "",
             f"{provenance.line()} {args.threads} thread{'s' * (args.threads > 1)}, batch {args.batch_size}. Command: `benchmarks/mixed_sizes.py --model {args.model} "
             f"--mixes {' '.join(args.mixes)} --dtype {args.dtype} --batch-size {args.batch_size} --threads {args.threads} --rounds "
             f"{args.rounds} --steps {args.steps}`. Training steps with AdamW, by turns in one process; images a second of processor time, "
             "medians of the rounds; the ratio is packed over padded of a round, in brackets the range. Aspect ratios from 1:2 to 2:1.", "",
             "| patches an image may have | tokens packed / padded | packed, img/s | padded, img/s | ratio |", "| --- | --- | --- | --- | --- |"]
    for text in args.mixes:
        mix = [int(number) for number in text.split(",")]
        found = measure(args, mix)
        rates = [1e3 * args.batch_size / statistics.median(one[f"{way}_cpu_ms"] for one in found["rounds"]) for way in ("packed", "padded")]
        ratio = torch_peer.ratio_text(one["padded_cpu_ms"] / one["packed_cpu_ms"] for one in found["rounds"])
        tokens = found["packed_tokens"] / found["padded_tokens"]
        lines.append(f"| {mix[0]} to {mix[1]} | {tokens:.2f} | {rates[0]:.1f} | {rates[1]:.1f} | {ratio} |")
    provenance.show(args, provenance.name_for(f"mixed_sizes_{args.dtype}", args.model, "vit_tiny_patch16_224"), lines)


if __name__ == "__main__":
    main()
