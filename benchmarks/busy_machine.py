#!/usr/bin/env python3
"""A training step of a small ViT on an idle machine and on one where every core is also busy with something else.

Threads of OpenMP spin at each barrier before they go to sleep. On an idle machine that is faster; where others need the cores, spinning
takes them away from the thread that everybody waits for. `fovea` is the program as it comes; with --spins others are measured beside
it: `default` is what the OpenMP library does (GOMP_SPINCOUNT=300000), a number is that count, `passive` no spinning at all. timm is as it
comes and with OMP_WAIT_POLICY=PASSIVE.

    python3 benchmarks/busy_machine.py [--spins default 1000 passive] [--rounds 5] [--write]
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

ROOT = provenance.ROOT
MODEL = {"img_size": 28, "patch_size": 7, "in_chans": 1, "num_classes": 10, "embed_dim": 192, "depth": 3, "num_heads": 6}
LOADS = {"idle": "idle", "busy": "every core busy"}


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


@contextlib.contextmanager
def load(name):
    """Nothing, or a process for each core that does nothing but work."""
    count = len(os.sched_getaffinity(0)) if name == "busy" else 0
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def sides(args, recipe):
    """By name: the command and its environment."""
    fovea = bench_model.command(args.fovea, recipe, "float32", "train", args)
    result = {"fovea": (fovea, environment(""))}
    result.update({f"fovea, {spins}": (fovea, environment(spins)) for spins in args.spins})
    if args.timm:
        timm = torch_peer.worker_command(__file__, args, "eager", "float32", "train")
        result.update({"timm": (timm, environment("")), "timm, passive": (timm, environment("passive"))})
    return result


def measure(args, chosen):
    """By load and side: step times and processor times of the rounds, in ms."""
    found = {}
    for turn in range(args.rounds):
        for load_name in LOADS:
            with load(load_name):
                for name in bench_model.in_turn(chosen, turn):
                    command, env = chosen[name]
                    result = bench_model.run_json(command, env=env)
                    found.setdefault((load_name, name), []).append((result["step_ms"], result["cpu_ms"]))
                    print(f"{load_name}, {name}: {result['step_ms']:.1f} ms", file=sys.stderr, flush=True)
    return found


def table(chosen, found):
    def median(load_name, name, which):
        return statistics.median(result[which] for result in found[load_name, name])

    lines = ["| | " + " | ".join(f"{title}: step, ms | processor time, ms" for title in LOADS.values()) + " | slower by |",
             "| --- |" + " --- |" * (2 * len(LOADS) + 1)]
    for name in chosen:
        cells = [f"{median(load_name, name, which):.1f}" for load_name in LOADS for which in (0, 1)]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {median('busy', name, 0) / median('idle', name, 0):.1f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--spins", nargs="*", default=["default", "passive"], help="default, passive or a count")
    parser.add_argument("--no-timm", dest="timm", action="store_false", help="Fovea alone")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
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
        recipe = pathlib.Path(folder) / "small.yaml"
        recipe.write_text(bench_model.classifier_recipe(MODEL))
        chosen = sides(args, recipe)
        found = measure(args, chosen)
    provenance.show(args, "busy_machine", [
        "# A small training run beside other work", "",
        f"{provenance.line()} float32, {args.threads} threads, batch {args.batch_size}, medians of {args.rounds} rounds by turns.", "",
        *table(chosen, found)])


if __name__ == "__main__":
    main()
