"""Speed of `fovea bench model` against timm in eager PyTorch, in one run on one machine.

First the two are given the same weights and images and must agree. Then each case is timed in rounds that alternate
between the two, each measurement in a process of its own, with the same threads, batch, dtype, loss (cross-entropy)
and optimizer (AdamW with PyTorch's defaults). bfloat16 means float32 master weights in both: timm runs under autocast,
as its training script does; `pure` rows hold timm's weights in bfloat16 as well, inference only.

    FOVEA_PYTHON=... benchmarks/vs_timm [--fovea build/release/apps/fovea/fovea] [--rounds 3] [--write]
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import peak_memory
import provenance

ROOT = provenance.ROOT
CASES = [("float32", "train"), ("float32", "infer"), ("bfloat16", "train"), ("bfloat16", "infer"),
         ("bfloat16 pure", "infer")]


def timm_worker(args):
    """One measurement of timm, printed as one JSON object."""
    import timm
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = timm.create_model(args.model)
    is_pure = args.dtype == "bfloat16 pure"
    uses_autocast = args.dtype == "bfloat16"
    size = model.default_cfg["input_size"]
    images = torch.randn(args.batch_size, *size)
    if is_pure:
        model, images = model.bfloat16(), images.bfloat16()
    labels = torch.randint(0, model.num_classes, (args.batch_size,))
    criterion = torch.nn.CrossEntropyLoss()
    is_training = args.mode == "train"
    model.train(is_training)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=uses_autocast):
            if not is_training:
                with torch.inference_mode():
                    model(images)
                return
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    peak_memory.reset()
    for _ in range(args.warmup):
        step()
    seconds = []
    cpu_start = time.process_time()
    for _ in range(args.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    cpu_ms = 1e3 * (time.process_time() - cpu_start) / args.steps
    median = statistics.median(seconds)
    print(json.dumps({"images_per_second": args.batch_size / median, "step_ms": 1e3 * median, "cpu_ms": cpu_ms,
                      "peak_memory_bytes": peak_memory.bytes_since_reset()}))


def run_json(args, command, env):
    command = shlex.split(args.prefix) + command
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure_fovea(args, env, dtype, mode):
    return run_json(args, [args.fovea, "bench", "model", args.model, "--mode", mode, "--dtype", dtype.split()[0],
                     "--device", "cpu", "--threads", str(args.threads), "--batch-size",
                     str(args.batch_size), "--steps", str(args.steps), "--warmup", str(args.warmup),
                     "--json"], env)


def measure_timm(args, env, dtype, mode):
    return run_json(args, [sys.executable, __file__, "--worker", "--model", args.model, "--dtype", dtype, "--mode", mode,
                     "--threads", str(args.threads), "--batch-size", str(args.batch_size), "--steps",
                     str(args.steps), "--warmup", str(args.warmup)], env)


def compare_outputs(args, env):
    """Largest difference of logits over the largest logit, by dtype, on the same weights and images."""
    import timm
    import torch
    from safetensors.torch import load_file, save_file

    torch.manual_seed(0)
    model = timm.create_model(args.model).eval()
    torch.nn.init.normal_(model.get_classifier().weight, std=0.02)  # timm starts heads at 0 or near it
    images = torch.randn(4, *model.default_cfg["input_size"])
    differences = {}
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
        folder = pathlib.Path(folder)
        save_file({name: value.contiguous() for name, value in model.state_dict().items()},
                  folder / "weights.safetensors")
        save_file({"images": images}, folder / "images.safetensors")
        for dtype in ("float32", "bfloat16"):
            with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "bfloat16"):
                expected = model(images).float()
            out = folder / f"{dtype}.safetensors"
            subprocess.run([args.fovea, "predict", args.model, folder / "images.safetensors", "--weights",
                            folder / "weights.safetensors", "--dtype", dtype, "--device", "cpu", "--out",
                            out], check=True, env=env, stdout=subprocess.DEVNULL)
            actual = load_file(out)["logits"].float()
            differences[dtype] = ((actual - expected).abs().max() / expected.abs().max()).item()
    limits = {"float32": 1e-4, "bfloat16": 5e-2}
    for dtype, difference in differences.items():
        if not difference <= limits[dtype]:
            sys.exit(f"{dtype}: logits differ by {difference:.2e} of the largest; expected at most {limits[dtype]}")
    return differences


def report(args, rows, differences):
    import timm
    import torch

    lines = [
        f"# {args.model}: Fovea against timm, CPU", "",
        f"{provenance.line()} {args.threads} threads. torch {torch.__version__}, timm {timm.__version__} (eager). Batch {args.batch_size}; "
        f"a training step is forward, cross-entropy, backward and AdamW.", "",
        f"Command: `benchmarks/vs_timm --rounds {args.rounds} --steps {args.steps} --warmup {args.warmup}"
        f" --threads {args.threads} --batch-size {args.batch_size} --model {args.model}"
        f"{' --cases ' + ' '.join(args.cases) if args.cases else ''}`. "
        f"Medians of {args.steps} steps in each of {args.rounds} alternating rounds; the ratio is the median of the "
        "rounds' ratios, in brackets their range; by processor time, which other programs hardly change, likewise.", "",
        "Logits on the same weights and images, largest difference over largest logit: "
        + ", ".join(f"{dtype} {value:.1e}" for dtype, value in differences.items()) + ".", "",
        "| dtype | mode | Fovea img/s | timm img/s | ratio | by processor time | Fovea GFLOP/s (share of GEMM peak) | "
        "peak memory Fovea / timm |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for (dtype, mode), rounds in rows.items():
        ours = statistics.median(a["images_per_second"] for a, _ in rounds)
        theirs = statistics.median(b["images_per_second"] for _, b in rounds)
        ratios = sorted(a["images_per_second"] / b["images_per_second"] for a, b in rounds)
        by_cpu = sorted(b["cpu_ms"] / a["cpu_ms"] for a, b in rounds)
        gflops = statistics.median(a["gflops_per_second"] for a, _ in rounds)
        share = statistics.median(a["gemm_share"] for a, _ in rounds)
        memory = [max(pair[i]["peak_memory_bytes"] for pair in rounds) / 2**20 for i in (0, 1)]
        lines.append(f"| {dtype} | {mode} | {ours:.1f} | {theirs:.1f} | {statistics.median(ratios):.2f} "
                     f"({ratios[0]:.2f} to {ratios[-1]:.2f}) | "
                     f"{statistics.median(by_cpu):.2f} ({by_cpu[0]:.2f} to {by_cpu[-1]:.2f}) | {gflops:.0f} ({100 * share:.0f} %) | "
                     f"{memory[0]:.0f} / {memory[1]:.0f} MiB |")
    lines += ["", "bfloat16: float32 master weights in both, timm under autocast; `pure`: timm's weights in bfloat16, "
              "Fovea as before."]
    short = {"vit_small_patch16_224": ""}.get(args.model, f"_{args.model}")
    provenance.show(args, f"vs_timm{short}", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--cases", nargs="*", help="such as float32/train; default: all")
    parser.add_argument("--prefix", default="", help="put before each measurement's command, such as numactl ...")
    provenance.add_report_arguments(parser)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        timm_worker(args)
        return
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    differences = compare_outputs(args, env)
    rows = {}
    for dtype, mode in CASES:
        if args.cases and f"{dtype}/{mode}" not in args.cases:
            continue
        for _ in range(args.rounds):
            pair = (measure_fovea(args, env, dtype, mode), measure_timm(args, env, dtype, mode))
            rows.setdefault((dtype, mode), []).append(pair)
            print(f"{dtype} {mode}: fovea {pair[0]['images_per_second']:.1f} img/s, timm "
                  f"{pair[1]['images_per_second']:.1f}", file=sys.stderr, flush=True)
    report(args, rows, differences)


if __name__ == "__main__":
    main()
