#!/usr/bin/env python3
"""A training step in float32 on a CPU that saves its activations in bfloat16 (device.saved_activations) or multiplies by parts of
bfloat16 (device.float32_products): memory, time, and error of gradients.

    benchmarks/float32_options.py [--models vit_small_patch16_224 ...] [--batch-sizes 16 64] [--options saved ...] [--rounds 5] [--write]

Steps with and without take turns, each measurement a process of its own. Gradients are held against those of the same model in
PyTorch in float64, on the weights, images and labels that each of them had (needs torch, timm and safetensors); those of MKL's
products of float32 stand beside them.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import bench_model
import provenance
import torch_peer

PLAIN = "device.saved_activations=full"
OPTIONS = {"saved": "device.saved_activations=bfloat16", "bfloat16x6": "device.float32_products=bfloat16x6",
           "bfloat16x3": "device.float32_products=bfloat16x3"}
MKL = {**os.environ, "FOVEA_KERNELS": "linear=mkl"}
MIB = 2**20
SIZES = {"vit_tiny_patch16_224": (192, 3), "vit_small_patch16_224": (384, 6), "vit_base_patch16_224": (768, 12)}  # width, heads
# The last kinds of a model's tensors that a name is held against.
KINDS = ["patch_embed.proj", "norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2", "head"]


def write_recipes(folder):
    """model -> a recipe of it, for a classifier of 1000 classes."""
    for model, (dim, heads) in SIZES.items():
        (folder / f"{model}.yaml").write_text(bench_model.classifier_recipe(
            {"img_size": 224, "patch_size": 16, "num_classes": 1000, "embed_dim": dim, "depth": 12, "num_heads": heads}))
    return {model: folder / f"{model}.yaml" for model in SIZES}


def measure(args, model, batch_size, override):
    command = bench_model.command(args.fovea, args.recipes[model], "float32", "train", args, batch_size=batch_size)
    return bench_model.run_json([*command, override])


def waiting_bytes(args, model, batch_size, override):
    """Of what waits for backward, as `fovea plan` counts it."""
    command = [args.fovea, "plan", args.recipes[model], "--gpus", 1, "--mesh", "dp_replicate=1", "--machine", "cpu", "--json"]
    return bench_model.run_json([*command, override, f"data.global_batch_size={batch_size}"])["activations_bytes"]


def step_row(args, model, batch_size, option):
    changed = OPTIONS[option]
    rounds = []
    for turn in range(args.rounds):
        pair = {side: measure(args, model, batch_size, side) for side in bench_model.in_turn([PLAIN, changed], turn)}
        rounds.append((pair[PLAIN], pair[changed]))
        print(f"{model}, {batch_size}, {option}: {rounds[-1][0]['cpu_ms']:.0f} -> {rounds[-1][1]['cpu_ms']:.0f} ms of processor time",
              file=sys.stderr, flush=True)

    def pair_of(key, number):
        return " / ".join(number(statistics.median(pair[side][key] for pair in rounds)) for side in (0, 1))

    def ratio(key):
        return torch_peer.ratio_text(plain[key] / other[key] for plain, other in rounds)

    waiting = " / ".join(f"{waiting_bytes(args, model, batch_size, side) / MIB:.0f}" for side in (PLAIN, changed))
    return (f"| {model} | {batch_size} | {option} | {waiting} | {pair_of('peak_memory_bytes', lambda x: f'{x / MIB:.0f}')} | "
            f"{pair_of('cpu_ms', lambda x: f'{x:.0f}')} | {ratio('cpu_ms')} | {ratio('step_ms')} |")


def gradients(args, model, dtype, override, file, environment=None):
    """What Fovea's step was of, and its gradients."""
    from safetensors.torch import load_file

    command = bench_model.command(args.fovea, args.recipes[model], dtype, "train", args, batch_size=args.error_batch, steps=1)
    subprocess.run([str(part) for part in [*command, override, "--gradients", file]], check=True, stdout=subprocess.DEVNULL,
                   env=environment)
    return load_file(file)


def torch_gradients(model, step, dtype):
    """By name, of PyTorch's step on the weights, images and labels of `step`; dtype: float64, or autocast to bfloat16."""
    import torch

    model = model.double() if dtype == "float64" else model.float()
    model.load_state_dict(torch_peer.part_of(step, "weights."))
    model.train().zero_grad()
    images = step["images"].to(next(model.parameters()).dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "autocast"):
        loss = torch.nn.functional.cross_entropy(model(images), step["labels"])
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def errors(found, exact):
    """kind -> the largest norm(difference) / norm of its tensors."""
    worst = {}
    for name, gradient in exact.items():
        kind = next((k for k in KINDS if re.search(rf"\b{re.escape(k)}\.(weight|bias)$", name)), "others")
        kind = f"{kind}.{name.rpartition('.')[2]}" if kind != "others" else kind
        error = ((found[name].double() - gradient).norm() / gradient.norm()).item()
        worst[kind] = max(worst.get(kind, 0.0), error)
    return worst


def error_rows(args, model_name):
    import timm

    model = timm.create_model(model_name)
    columns = {}
    file = args.recipes[model_name].with_suffix(".safetensors")
    sides = [("float32", "float32", PLAIN, None), ("float32, MKL", "float32", PLAIN, MKL),
             *((option, "float32", OPTIONS[option], None) for option in args.options),
             ("device.dtype=bfloat16", "bfloat16", PLAIN, None)]
    for title, dtype, override, environment in sides:
        step = gradients(args, model_name, dtype, override, file, environment)
        exact = torch_gradients(model, step, "float64")
        columns[title] = errors(torch_peer.part_of(step, "gradients."), exact)
    columns["PyTorch, autocast to bfloat16"] = errors(torch_gradients(model, step, "autocast"), exact)
    kinds = columns["float32"]
    return [f"| tensor | {' | '.join(columns)} |", "| --- " * (1 + len(columns)) + "|",
            *(f"| {kind} | {' | '.join(f'{column[kind]:.1e}' for column in columns.values())} |" for kind in kinds)]


def report(args):
    words = [f"--{name.replace('_', '-')} {' '.join(map(str, getattr(args, name)))}".rstrip()
             for name in ("models", "batch_sizes", "options", "error_models")]
    command = (f"{' '.join(words)} --error-batch {args.error_batch} --rounds {args.rounds} --steps {args.steps} "
               f"--warmup {args.warmup} --threads {args.threads}")
    lines = ["# What training in float32 on a CPU may save, and multiply, otherwise", "",
             f"{provenance.line()} Command: `benchmarks/float32_options.py {command}`."]
    if args.models:
        lines += ["", f"A training step, float32, {args.threads} threads: as it is / with the option. Medians of {args.rounds} "
                  "alternating rounds; a ratio above 1 is of a faster step, in brackets its range over the rounds.", "",
                  "| model | images | option | saved for backward, MiB | peak memory, MiB | processor time, ms | ratio of it | by the clock |",
                  "| --- | --- | --- | --- | --- | --- | --- | --- |"]
        lines += [step_row(args, model, size, option) for model in args.models for size in args.batch_sizes for option in args.options]
    for model in args.error_models:
        lines += ["", f"Gradients of {model}, {args.error_batch} images, behind {args.warmup} steps: largest norm(difference) / norm of the "
                  "tensors of a kind, against float64.", "", *error_rows(args, model)]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", type=pathlib.Path, default=provenance.ROOT / "build/release/apps/fovea/fovea")
    parser.add_argument("--models", nargs="*", choices=list(SIZES), default=["vit_tiny_patch16_224", "vit_small_patch16_224"])
    parser.add_argument("--batch-sizes", nargs="*", type=int, default=[16, 64])
    parser.add_argument("--options", nargs="*", choices=list(OPTIONS), default=list(OPTIONS))
    parser.add_argument("--error-models", nargs="*", default=["vit_small_patch16_224"])
    parser.add_argument("--error-batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=2)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    args.device = "cpu"
    with tempfile.TemporaryDirectory() as folder:
        args.recipes = write_recipes(pathlib.Path(folder))
        provenance.show(args, "float32_options", report(args))


if __name__ == "__main__":
    main()
