#!/usr/bin/env python3
"""A step of a small ViT, training and inference, on an idle machine and on one where one core, or every one, is busy with something else.

Threads of OpenMP spin at each barrier before they go to sleep. On an idle machine that is faster; where others need the cores, spinning
takes them away from the thread that everybody waits for. `fovea` is the program as it comes; with --spins others are measured beside
it: `default` is what the OpenMP library does (GOMP_SPINCOUNT=300000), a number is that count, `passive` no spinning at all. timm is as it
comes and with OMP_WAIT_POLICY=PASSIVE, and OpenVINO runs the file of `fovea export`; its Python needs what vs_openvino.py needs. Fair is
what a step takes where each other process gets half of a core: of idle, with c cores and n processes, c / (c - n / 2).

    python3 benchmarks/busy_machine.py [--spins default 1000 passive] [--peers timm openvino] [--rounds 5] [--write]
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench_model
import provenance
import torch_peer
import vs_openvino

ROOT = provenance.ROOT
MODEL = {"img_size": 28, "patch_size": 7, "in_chans": 1, "num_classes": 10, "embed_dim": 192, "depth": 3, "num_heads": 6}
CORES = len(os.sched_getaffinity(0))
OPENVINO_SECONDS = "0.2\n1\n"  # to warm up, and those that count
LOADS = {0: "idle", 1: "one core busy", CORES: "every core busy"}  # by how many processes do nothing but work


def timm_worker(args):
    import torch
    from timm.models.vision_transformer import VisionTransformer

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = VisionTransformer(**MODEL)
    images = torch.randn(args.batch_size, MODEL["in_chans"], MODEL["img_size"], MODEL["img_size"])
    torch_peer.time_steps(args, model, images, torch.randint(0, MODEL["num_classes"], (args.batch_size,)))


def environment(spins):
    """spins: "" (as the program comes), "default", "passive" or a count."""
    env = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    if spins == "passive":
        env["OMP_WAIT_POLICY"] = "PASSIVE"
    elif spins:
        env["GOMP_SPINCOUNT"] = "300000" if spins == "default" else spins
    return env


def fair(count):
    return CORES / (CORES - count / 2)


@contextlib.contextmanager
def load(count):
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def openvino_command(args, folder):
    import numpy as np

    vs_openvino.RECIPES["small"] = MODEL
    weights, shape = vs_openvino.save_weights(args, "small", folder, environment(""))
    file = vs_openvino.export(args, "small", weights, args.batch_size, folder, environment(""))
    images = folder / "images.npy"
    np.save(images, np.random.default_rng(2).standard_normal((args.batch_size, *shape)).astype(np.float32))
    return vs_openvino.worker_command(args, "openvino", file, images, "float32")


def sides(args, folder):
    """By name, training first: the command and its environment."""
    recipe = folder / "small.yaml"
    recipe.write_text(bench_model.classifier_recipe(MODEL))
    result = {}
    for mode in ("train", "infer"):
        fovea = bench_model.command(args.fovea, recipe, "float32", mode, args)
        result[f"{mode}: fovea"] = (fovea, environment(""))
        result.update({f"{mode}: fovea, {spins}": (fovea, environment(spins)) for spins in args.spins})
        if "timm" in args.peers:
            timm = torch_peer.worker_command(__file__, args, "eager", "float32", mode)
            result.update({f"{mode}: timm": (timm, environment("")), f"{mode}: timm, passive": (timm, environment("passive"))})
    if "openvino" in args.peers:
        result["infer: openvino"] = (openvino_command(args, folder), environment(""))
    return result


def measure(args, chosen):
    """By load and side: step times and processor times of the rounds, in ms."""
    found = {}
    for turn in range(args.rounds):
        for count, title in LOADS.items():
            with load(count):
                for name in bench_model.in_turn(chosen, turn):
                    command, env = chosen[name]
                    result = bench_model.run_json(command, env=env, input=OPENVINO_SECONDS)
                    step = (result["step_ms"], result["cpu_ms"]) if "step_ms" in result else vs_openvino.batch_ms(result)
                    found.setdefault((count, name), []).append(step)
                    print(f"{title}, {name}: {step[0]:.1f} ms", file=sys.stderr, flush=True)
    return found


def table(chosen, found):
    def median(count, name, which):
        return statistics.median(result[which] for result in found[count, name])

    head = ["", *(f"{title}: step, ms (processor time)" for title in LOADS.values()),
            *(f"{LOADS[count]}, of idle (fair: {fair(count):.2f})" for count in LOADS if count)]
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for name in chosen:
        cells = [f"{median(count, name, 0):.1f} ({median(count, name, 1):.1f})" for count in LOADS]
        cells += [f"{median(count, name, 0) / median(0, name, 0):.2f}" for count in LOADS if count]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--spins", nargs="*", default=["default", "passive"], help="default, passive or a count")
    parser.add_argument("--peers", nargs="*", choices=["timm", "openvino"], default=["timm", "openvino"])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=CORES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=3)
    provenance.add_report_arguments(parser)
    for name in ("--worker", "--model", "--device", "--dtype", "--mode"):
        parser.add_argument(name, default={"--model": "small", "--device": "cpu"}.get(name), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        timm_worker(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        chosen = sides(args, pathlib.Path(folder))
        found = measure(args, chosen)
    provenance.show(args, "busy_machine", [
        "# A small model beside other work", "",
        f"{provenance.line()} float32, {args.threads} threads, batch {args.batch_size}, medians of {args.rounds} rounds by turns.", "",
        *table(chosen, found)])


if __name__ == "__main__":
    main()
