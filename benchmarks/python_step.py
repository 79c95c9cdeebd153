#!/usr/bin/env python3
"""A training step of fovea.create_model in a loop of torch's, by turns with the same step of the program (`fovea bench model`): forward,
cross-entropy, backward, AdamW.

usage: python_step.py --fovea PROGRAM [--model vit_small_patch16_224] [--batch-size 16] [--threads 1] [--dtype float32] [--rounds 5]
       [--steps 5]

Run by the Python that has fovea (or with PYTHONPATH=build/release/python). Each round starts both anew; the medians of all steps' medians
are compared.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fovea", default="fovea")
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--in-python", action="store_true", help="one round in this process, of whose steps the median is printed")
    return parser.parse_args()


def median_step_in_python(args):
    """ms."""
    import fovea
    import torch
    torch.set_num_threads(args.threads)
    model = fovea.create_model(args.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    images = torch.randn(args.batch_size, *model.pretrained_cfg["input_size"])
    labels = torch.arange(args.batch_size) % model.num_classes
    times = []
    for _ in range(3 + args.steps):
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.dtype == "bfloat16"):
            logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[3:])


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True).stdout


def main():
    args = options()
    if args.in_python:
        print(median_step_in_python(args))
        return
    common = ("--batch-size", args.batch_size, "--threads", args.threads, "--dtype", args.dtype, "--steps", args.steps)
    times = {"program": [], "Python": []}
    for _ in range(args.rounds):
        found = run(args.fovea, "bench", "model", args.model, "--mode", "train", "--device", "cpu", "--json", *common)
        times["program"].append(json.loads(found)["step_ms"])
        times["Python"].append(float(run(sys.executable, __file__, "--in-python", "--model", args.model, *common)))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, values in times.items():
        print(f"{name:8} {medians[name]:9.1f} ms a step  (of {args.rounds}: {', '.join(f'{value:.1f}' for value in values)})")
    print(f"Python reaches {medians['program'] / medians['Python']:.3f} of the program's speed")


if __name__ == "__main__":
    main()
