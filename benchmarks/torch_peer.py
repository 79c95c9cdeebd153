"""What the peers in PyTorch have in common: how they are compiled, stepped and timed, and how rounds become a table.

A peer is a name: `eager`; `compile`, torch.compile as it comes; `max-autotune`, torch.compile with that mode, for GPUs.
"""

import json
import math
import shlex
import statistics
import subprocess
import sys
import time

import bench_model
import peak_memory

PEERS = ["eager", "compile", "max-autotune"]
TITLES = {"eager": "eager", "compile": "torch.compile", "max-autotune": "torch.compile (max-autotune)"}


def add_arguments(parser, default_batch):
    """What is measured, and how often; --worker and what it needs."""
    import argparse
    import os

    parser.add_argument("--peers", nargs="+", choices=PEERS, default=["eager"], help="default: eager")
    parser.add_argument("--device", default="cpu", help="cpu or cuda, of both sides")
    parser.add_argument("--batch-size", type=int, default=default_batch)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones; compilation falls into them")
    parser.add_argument("--cases", nargs="*", help="such as float32/train; default: all")
    parser.add_argument("--prefix", default="", help="put before each measurement's command, such as numactl ...")
    for name in ("--worker", "--dtype", "--mode"):
        parser.add_argument(name, help=argparse.SUPPRESS)


def check_arguments(parser, args, cases):
    known = [f"{dtype}/{mode}" for dtype, mode in cases]
    for case in args.cases or []:
        if case not in known:
            parser.error(f"--cases: found {case}, expected some of {' '.join(known)}")
    if args.device == "cpu" and "max-autotune" in args.peers:
        parser.error("--peers: max-autotune is for GPUs; expected eager, compile with --device cpu")
    if args.warmup < 1:
        parser.error("--warmup: found 0, expected 1 or more: peers are compiled in it")


def compiled(model, peer):
    import torch

    if peer == "eager":
        return model
    return torch.compile(model, mode="max-autotune" if peer == "max-autotune" else None)


def autocast(device, dtype):
    """dtype: as in the tables; "bfloat16 pure" is weights in bfloat16, and no autocast."""
    import torch

    kinds = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    return torch.autocast(device, dtype=kinds.get(dtype, torch.bfloat16), enabled=dtype in kinds)


def time_steps(args, model, images, labels):
    """One measurement of a peer, printed as one JSON object. A training step is forward, cross-entropy, backward, AdamW."""
    import torch

    peer = args.worker
    on_gpu = args.device == "cuda"
    is_training = args.mode == "train"
    model = model.to(args.device)
    images, labels = images.to(args.device), labels.to(args.device)
    if args.dtype == "bfloat16 pure":
        model, images = model.bfloat16(), images.bfloat16()
    model.train(is_training)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    criterion = torch.nn.CrossEntropyLoss()
    model = compiled(model, peer)

    def step():
        with autocast(args.device, args.dtype):
            if not is_training:
                with torch.inference_mode():
                    model(images)
                return
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def synchronize():
        if on_gpu:
            torch.cuda.synchronize()

    start = time.perf_counter()
    step()
    synchronize()
    first = time.perf_counter() - start
    peak_memory.reset()  # what compiling took is no step's
    for _ in range(args.warmup - 1):
        step()
    seconds = []
    cpu_start = time.process_time()
    for _ in range(args.steps):
        synchronize()
        start = time.perf_counter()
        step()
        synchronize()
        seconds.append(time.perf_counter() - start)
    cpu_ms = 1e3 * (time.process_time() - cpu_start) / args.steps
    median = statistics.median(seconds)
    memory = torch.cuda.max_memory_allocated() if on_gpu else peak_memory.bytes_since_reset()
    print(json.dumps({"images_per_second": args.batch_size / median, "step_ms": 1e3 * median, "cpu_ms": cpu_ms,
                      "first_step_seconds": first, "peak_memory_bytes": memory}))


def worker_command(script, args, peer, dtype, mode):
    return [sys.executable, script, "--worker", peer, "--model", args.model, "--dtype", dtype, "--mode", mode, "--device", args.device,
            "--threads", args.threads, "--batch-size", args.batch_size, "--steps", args.steps, "--warmup", args.warmup]


def fovea_command(args, what, dtype, mode):
    return bench_model.command(args.fovea, what, dtype.split()[0], mode, args)


def race(args, env, cases, commands):
    """commands(dtype, mode): by side, "fovea" and each of the peers. -> by case: a list of rounds, each a result by side."""
    results = {}
    for dtype, mode in cases:
        if args.cases and f"{dtype}/{mode}" not in args.cases:
            continue
        sides = commands(dtype, mode)
        names = list(sides)
        for turn in range(args.rounds):
            found = {name: bench_model.run_json(shlex.split(args.prefix) + sides[name], env=env) for name in bench_model.in_turn(names, turn)}
            results.setdefault((dtype, mode), []).append(found)
            print(f"{dtype} {mode}: " + ", ".join(f"{name} {found[name]['images_per_second']:.1f}" for name in names) + " img/s",
                  file=sys.stderr, flush=True)
    return results


def ratio_text(values):
    values = sorted(values)
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def table(args, results):
    """Markdown: a row a case, for each peer its rate and Fovea's ratio to it, by the clock on the wall and by processor time."""
    head = ["dtype", "mode", "Fovea img/s"]
    for peer in args.peers:
        head += [f"{TITLES[peer]} img/s", "ratio", "by processor time"]
    head += ["Fovea GFLOP/s (share of GEMM peak)", "peak memory Fovea / " + " / ".join(TITLES[peer] for peer in args.peers)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for (dtype, mode), rounds in results.items():
        def median(side, key, rounds=rounds):
            return statistics.median(found[side][key] for found in rounds)

        cells = [dtype, mode, f"{median('fovea', 'images_per_second'):.1f}"]
        for peer in args.peers:
            cells += [f"{median(peer, 'images_per_second'):.1f}",
                      ratio_text(found["fovea"]["images_per_second"] / found[peer]["images_per_second"] for found in rounds),
                      ratio_text(found[peer]["cpu_ms"] / found["fovea"]["cpu_ms"] for found in rounds)]
        cells.append(f"{median('fovea', 'gflops_per_second'):.0f} ({100 * median('fovea', 'gemm_share'):.0f} %)")
        memory = [max(found[side]["peak_memory_bytes"] for found in rounds) / 2**20 for side in ("fovea", *args.peers)]
        cells.append(" / ".join(f"{value:.0f}" for value in memory) + " MiB")
        lines.append("| " + " | ".join(cells) + " |")
    first = [f"{TITLES[peer]} {statistics.median(found[peer]['first_step_seconds'] for found in rounds):.1f} s ({dtype} {mode})"
             for peer in args.peers if peer != "eager" for (dtype, mode), rounds in results.items()]
    if first:
        lines += ["", "The first step, in which a peer is compiled, where its cache on the disk does not have it; not timed above: "
                  + ", ".join(first) + "."]
    return lines


LIMITS = {"float32": 1e-4, "bfloat16": 5e-2, "float16": 1e-2}  # of the largest logit


def differences(args, model, images, logits):
    """Text: how far each peer's logits are from Fovea's. logits: Fovea's, by dtype. Ends the script where it is too far."""
    import torch

    found = []
    for peer in args.peers:
        chosen = compiled(model, peer)
        for dtype, ours in logits.items():
            with torch.inference_mode(), autocast("cpu", dtype):
                theirs = chosen(images).float()
            difference = ((ours - theirs).abs().max() / theirs.abs().max()).item()
            if not difference <= LIMITS[dtype]:
                sys.exit(f"{peer}, {dtype}: logits differ by {difference:.2e} of the largest; expected at most {LIMITS[dtype]}")
            found.append(f"{TITLES[peer]}, {dtype} {difference:.1e}")
    return "; ".join(found)


GRADIENT_LIMITS = {"float32": 1e-4, "bfloat16": 5e-2}  # of a gradient's norm


def gradient_differences(args, env, model, what, cases, folder):
    """Text: how far each peer's gradients are from Fovea's in the step that is timed, of the same weights and inputs.

    what: `model` to Fovea, a name or a recipe. The number is the largest of norm(difference) / norm over the parameters,
    which must have the same names. Ends the script where it is too far. Empty where no training is timed."""
    from safetensors.torch import load_file

    found = []
    dtypes = [dtype for dtype, mode in cases if mode == "train" and (not args.cases or f"{dtype}/{mode}" in args.cases)]
    for dtype in dtypes:
        file = folder / f"gradients_{dtype}.safetensors"
        command = bench_model.command(args.fovea, what, dtype, "train", args, steps=1)
        subprocess.run([str(part) for part in [*command, "--gradients", file]], check=True, env=env, stdout=subprocess.DEVNULL)
        step = load_file(file)
        ours = part_of(step, "gradients.")
        for peer in args.peers:
            theirs = gradients_of(args, model, peer, dtype, step)
            if ours.keys() != theirs.keys():
                sys.exit(f"{peer}: gradients of other parameters than Fovea's: {sorted(ours.keys() ^ theirs.keys())}")
            by_name = {name: ((ours[name] - theirs[name]).norm() / theirs[name].norm()).item() for name in ours}
            worst = max(by_name, key=lambda name: (math.isnan(by_name[name]), by_name[name]))
            if not by_name[worst] <= GRADIENT_LIMITS[dtype]:
                sys.exit(f"{peer}, {dtype}: the gradient of {worst} differs by {by_name[worst]:.2e} of its norm; expected at most "
                         f"{GRADIENT_LIMITS[dtype]}")
            found.append(f"{TITLES[peer]}, {dtype} {by_name[worst]:.1e} ({worst}, of {len(by_name)})")
    return "; ".join(found)


def agreement_text(logits, gradients):
    """A line of the report: what `differences` and `gradient_differences` found."""
    text = f"On the same weights and inputs, logits, largest difference over largest logit: {logits}."
    if gradients:
        text += f" Gradients of the step that is timed, largest norm of the difference over the norm, of a parameter: {gradients}."
    return text


def part_of(tensors, prefix):
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def gradients_of(args, model, peer, dtype, step):
    """By name, of a training step of `model` on the weights, images and labels of `step`."""
    import torch

    torch._dynamo.reset()  # what was compiled for other shapes would make this one dynamic, unlike the timed one
    model.load_state_dict(part_of(step, "weights."))
    model = model.to(args.device).train()
    model.zero_grad()
    images, labels = step["images"].to(args.device), step["labels"].to(args.device)
    with autocast(args.device, dtype):
        loss = torch.nn.functional.cross_entropy(compiled(model, peer)(images), labels)
    loss.backward()
    return {name: parameter.grad.cpu() for name, parameter in model.named_parameters()}


def options_text(args):
    """The command line that repeats this run, without the script's name."""
    cases = f" --cases {' '.join(args.cases)}" if args.cases else ""
    device = "" if args.device == "cpu" else f" --device {args.device}"
    return (f"--model {args.model} --peers {' '.join(args.peers)} --rounds {args.rounds} --steps {args.steps} --warmup {args.warmup} "
            f"--threads {args.threads} --batch-size {args.batch_size}{device}{cases}")


def method_text(args):
    return (f"Medians of {args.steps} steps in each of {args.rounds} alternating rounds; a ratio is the median of the rounds' ratios of "
            "Fovea to the peer left of it, above 1 where Fovea is faster, in brackets their range; by processor time, which other "
            "programs hardly change, likewise.")
