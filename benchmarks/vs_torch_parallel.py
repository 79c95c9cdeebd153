#!/usr/bin/env python3
"""DDP and FSDP of Fovea against PyTorch's DistributedDataParallel and fully_shard, in one run on one machine.

Two processes that talk through Gloo, one thread each, the same weights, images and labels, batch, dtype, loss
(cross-entropy) and optimizer (AdamW, no decay of biases, norms and embeddings). fully_shard is given each block and
then the model, as its documentation has it. Both start from the same weights, and their losses step by step must agree.
Rounds alternate between the systems, each measurement in processes of its own.

    cmake --build build/release --target bench_parallel_step
    python3 benchmarks/vs_torch_parallel.py [--model vit_small_patch16_224] [--rounds 3] [--write]
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import peak_memory
import provenance

ROOT = provenance.ROOT
CASES = [("ddp", "float32"), ("fsdp", "float32"), ("ddp", "bfloat16"), ("fsdp", "bfloat16")]
PEERS = {"ddp": "DistributedDataParallel", "fsdp": "fully_shard"}


def in_parallel(model, mode, ranks, dtype):
    """The model as the peer trains it on these ranks."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn.parallel import DistributedDataParallel

    if mode == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    mesh = init_device_mesh("cpu", (ranks,))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options = {"mesh": mesh, **({"mp_policy": policy} if dtype == "bfloat16" else {})}
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def peer_worker(args):
    """One rank of the peer; the first one prints one JSON object."""
    import timm
    import timm.optim
    import torch
    import torch.distributed as dist
    from safetensors.torch import load_file

    torch.set_num_threads(1)
    before = peak_memory.bytes_since_reset()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = timm.create_model(args.model)
    model.load_state_dict(load_file(args.weights))
    batch = load_file(args.batch)
    rows = len(batch["labels"]) // ranks
    images, labels = (batch[name][rank * rows:(rank + 1) * rows].clone() for name in ("images", "labels"))
    del batch
    criterion = torch.nn.CrossEntropyLoss()
    no_decay = model.no_weight_decay()
    model = in_parallel(model.train(), args.worker, ranks, args.dtype)
    groups = timm.optim.param_groups_weight_decay(model.module if args.worker == "ddp" else model, 0.05, no_decay)
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    uses_autocast = args.dtype == "bfloat16" and args.worker == "ddp"

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=uses_autocast):
            loss = criterion(model(images).float(), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)  # the loss of the global batch, which Fovea's step gives too
        return total.item() / ranks

    dist.barrier()
    peak_memory.reset()
    losses = [step() for _ in range(args.warmup)]
    seconds = []
    cpu_start = time.process_time()
    for _ in range(args.steps):
        start = time.perf_counter()
        losses.append(step())
        seconds.append(time.perf_counter() - start)
    own = {"step_ms": 1e3 * statistics.median(seconds), "cpu_ms": 1e3 * (time.process_time() - cpu_start) / args.steps,
           "peak_memory_bytes": peak_memory.bytes_since_reset(), "bytes_before": before}
    everybody = [None] * ranks
    dist.all_gather_object(everybody, own)
    if rank == 0:
        print(json.dumps({"losses": losses, "ranks": everybody}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def last_json(processes):
    outputs = [process.communicate() for process in processes]
    for process, (_, errors) in zip(processes, outputs):
        if process.returncode != 0:
            sys.exit(f"{' '.join(map(str, process.args))}\nended with {process.returncode}:\n{errors[-3000:]}")
    return json.loads(outputs[0][0].strip().splitlines()[-1])


def measure_fovea(args, files, mode, dtype):
    command = [args.program, args.model, files / "weights.safetensors", files / "batch.safetensors", mode,
               str(args.ranks), dtype, str(args.steps), str(args.warmup)]
    return last_json([subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=dict(os.environ, OMP_NUM_THREADS="1"))])


def measure_peer(args, files, mode, dtype):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, __file__, "--worker", mode, "--model", args.model, "--dtype", dtype, "--weights",
               files / "weights.safetensors", "--batch", files / "batch.safetensors", "--steps", str(args.steps),
               "--warmup", str(args.warmup)]
    return last_json([subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=dict(os.environ, OMP_NUM_THREADS="1", RANK=str(rank), WORLD_SIZE=str(args.ranks), LOCAL_RANK=str(rank),
                 MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))) for rank in range(args.ranks)])


def write_inputs(args, folder):
    import timm
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = timm.create_model(args.model)
    size = model.default_cfg["input_size"]
    rows = args.batch_size * args.ranks
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, folder / "weights.safetensors")
    save_file({"images": torch.randn(rows, *size), "labels": torch.randint(0, model.num_classes, (rows,))},
              folder / "batch.safetensors")


def largest_difference(ours, theirs, mode, dtype):
    """Of the losses, step by step, over the first one."""
    difference = max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"], strict=True)) / theirs["losses"][0]
    limit = {"float32": 1e-3, "bfloat16": 5e-2}[dtype]
    if not difference <= limit:
        sys.exit(f"{mode} {dtype}: losses {ours['losses']} and {theirs['losses']} differ by {difference:.1e} of the "
                 f"first; expected at most {limit}")
    return difference


def slowest(result, key):
    return max(rank[key] for rank in result["ranks"])


def spread(values, digits=2):
    values = sorted(values)
    return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f} to {values[-1]:.{digits}f})"


def report(args, rows):
    import timm
    import torch

    lines = [
        f"# {args.model} on {args.ranks} processes: Fovea against PyTorch, CPU and Gloo", "",
        f"{provenance.line()} One thread a process. torch {torch.__version__}, timm {timm.__version__} (eager). "
        f"{args.batch_size} images a process; a step is forward, cross-entropy, backward, the exchange, AdamW, and the "
        "loss of the whole batch.", "",
        f"Command: `benchmarks/vs_torch_parallel.py --model {args.model} --batch-size {args.batch_size} --ranks {args.ranks} "
        f"--rounds {args.rounds} --steps {args.steps} --warmup {args.warmup}"
        f"{' --cases ' + ' '.join(args.cases) if args.cases else ''}`. Medians of {args.steps} steps, of the slower "
        f"process, in each of {args.rounds} alternating rounds; the ratio is the median of the rounds' ratios, in brackets "
        "their range. Memory: the most that a process held (VmHWM) in its steps, and in brackets how much that is above "
        "what it held before it had a model: libraries, and of the peer Python.", "",
        "| mode | dtype | Fovea step | PyTorch step | PyTorch / Fovea | by processor time | Fovea waits for the exchange | "
        "memory Fovea | memory PyTorch | losses differ by |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for (mode, dtype), rounds in rows.items():
        steps = [[slowest(pair[i], "step_ms") for pair in rounds] for i in (0, 1)]
        cpu = [slowest(b, "cpu_ms") / slowest(a, "cpu_ms") for a, b in rounds]
        wait = statistics.median(slowest(a, "wait_ms") for a, _ in rounds)
        memory = []
        for i in (0, 1):
            peak = max(slowest(pair[i], "peak_memory_bytes") for pair in rounds) / 2**20
            above = max(rank["peak_memory_bytes"] - rank["bytes_before"]
                        for pair in rounds for rank in pair[i]["ranks"]) / 2**20
            memory.append(f"{peak:.0f} MiB ({above:.0f})")
        differences = max(largest_difference(a, b, mode, dtype) for a, b in rounds)
        lines.append(
            f"| {mode.upper()} | {dtype} | {statistics.median(steps[0]):.0f} ms | {statistics.median(steps[1]):.0f} ms | "
            f"{spread([b / a for a, b in zip(*steps)])} | {spread(cpu)} | {wait:.0f} ms | {memory[0]} | {memory[1]} | "
            f"{differences:.0e} |")
    lines += ["", "The peers are DistributedDataParallel with gradient_as_bucket_view, and fully_shard of each block and "
              "of the model. bfloat16: float32 master weights in all; the peer's DDP under autocast, its fully_shard with "
              "param_dtype bfloat16 and reduce_dtype float32, Fovea with device.dtype bfloat16."]
    provenance.show(args, "vs_torch_parallel", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/benchmarks/bench_parallel_step"))
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--batch-size", type=int, default=4, help="images of each process")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--cases", nargs="*", help="such as ddp/float32; default: all")
    provenance.add_report_arguments(parser)
    parser.add_argument("--worker", choices=["ddp", "fsdp"], help=argparse.SUPPRESS)
    parser.add_argument("--dtype", help=argparse.SUPPRESS)
    parser.add_argument("--weights", help=argparse.SUPPRESS)
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        peer_worker(args)
        return
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        files = pathlib.Path(folder)
        write_inputs(args, files)
        for _ in range(args.rounds):
            for mode, dtype in CASES:
                if args.cases and f"{mode}/{dtype}" not in args.cases:
                    continue
                pair = (measure_fovea(args, files, mode, dtype), measure_peer(args, files, mode, dtype))
                rows.setdefault((mode, dtype), []).append(pair)
                largest_difference(*pair, mode, dtype)
                print(f"{mode} {dtype}: fovea {slowest(pair[0], 'step_ms'):.0f} ms, waits {slowest(pair[0], 'wait_ms'):.0f}, "
                      f"{PEERS[mode]} {slowest(pair[1], 'step_ms'):.0f} ms", file=sys.stderr, flush=True)
    report(args, rows)


if __name__ == "__main__":
    main()
