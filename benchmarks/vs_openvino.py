#!/usr/bin/env python3
"""Inference of `Predictor` against OpenVINO and ONNX Runtime, which run the file that `fovea export` writes.

All are given the same weights and images first and must agree in their logits. Then each case is timed: each side stands loaded in a
process of its own, with the same threads, batch and dtype, and they take turns of a second or so; of each pair of turns side by side
comes one ratio, so that what slows the machine for longer than that slows both. The peers get a file of that very batch size; what they
compile is not timed. ONNX Runtime has no bfloat16 on CPUs. In int8 OpenVINO runs what NNCF makes of that file, calibrated on
noise as all are given, and ONNX Runtime what its quantize_dynamic makes.

    cmake --build --preset release --target fovea bench_predictor
    python3 benchmarks/vs_openvino.py [--models vit_small_patch16_224 ... unetr_encoder] [--batches 1 4 16 32]
        [--dtypes float32 bfloat16 int8] [--part int8] [--write]

--part names a table of its own among the results, of some cases alone.

Its Python needs openvino, onnxruntime, numpy and safetensors; for int8 also nncf and onnx.
"""

import argparse
import importlib
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import bench_model
import provenance
import torch_peer
from timed_worker import TimedWorker, answer_seconds, predictor_worker

ROOT = provenance.ROOT
MODELS = ["vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224"]
# The encoder of UNETR (Hatamizadeh et al. 2022) under a classifier, so that there are logits.
RECIPES = {"unetr_encoder": {"img_size": [96, 96, 96], "patch_size": [16, 16, 16], "in_chans": 1, "embed_dim": 768, "depth": 12, "num_heads": 12,
                             "class_token": False, "global_pool": "avg", "num_classes": 14}}
TITLES = {"fovea": "Fovea", "openvino": "OpenVINO", "onnxruntime": "ONNX Runtime"}
HAS_DTYPE = {"fovea": ("float32", "bfloat16", "int8"), "openvino": ("float32", "bfloat16", "int8"), "onnxruntime": ("float32", "int8")}
# Of logits, over the largest: how each rounds to 8 bits is its own.
LIMITS = torch_peer.LIMITS | {"int8": 0.2}
CALIBRATION_BATCHES = 8


def runner(peer, file, threads, dtype):
    """images [B, C, H, W] -> logits, by a peer."""
    if peer == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return lambda images: session.run(None, {name: images})[0]
    import openvino

    # Beside int8 it is left to OpenVINO, too: bfloat16 where the processor multiplies that.
    precision = {"float32": {"INFERENCE_PRECISION_HINT": "f32"}, "bfloat16": {"INFERENCE_PRECISION_HINT": "bf16"}, "int8": {}}[dtype]
    model = openvino.Core().compile_model(file, "CPU", {**precision, "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
    request = model.create_infer_request()
    return lambda images: request.infer([images], share_inputs=True, share_outputs=True)[model.output(0)]


def quantize(peer, file, shape, out):
    """Writes what a peer's own tool makes of the file, for images [B, C, H, W]."""
    if peer == "onnxruntime":
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(file, out, per_channel=True, weight_type=QuantType.QInt8)
        return
    import nncf
    import numpy as np
    import openvino

    draw = np.random.default_rng(3)
    noise = [draw.standard_normal(shape).astype(np.float32) for _ in range(CALIBRATION_BATCHES)]
    model = nncf.quantize(openvino.Core().read_model(file), nncf.Dataset(noise), model_type=nncf.ModelType.TRANSFORMER,
                          subset_size=len(noise))
    openvino.save_model(model, out)


def worker(args):
    """A peer that is asked for seconds; with --out its logits, with --quantized a file for int8 instead."""
    import numpy as np

    if args.quantized:
        quantize(args.worker, args.file, np.load(args.images).shape, args.quantized)
        return
    run = runner(args.worker, args.file, args.threads, args.dtype)
    if args.out:
        np.save(args.out, np.concatenate([run(image[None]).copy() for image in np.load(args.images)]))
        return
    images = np.load(args.images)
    answer_seconds(lambda: run(images))


def worker_command(args, peer, file, images, dtype, *more):
    return [sys.executable, __file__, "--worker", peer, "--file", file, "--images", images, "--dtype", dtype, "--threads", args.threads,
            *more]


def target_of(model, folder):
    """What `fovea` takes for the name: itself, or a recipe that is written."""
    if model not in RECIPES:
        return model
    recipe = folder / f"{model}.yaml"
    recipe.write_text(bench_model.classifier_recipe(RECIPES[model]))
    return recipe


def save_weights(args, model, folder, env):
    """The weights that `fovea bench model` starts with, a head of noise instead of zeros, and the shape of an image."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    step = folder / "step.safetensors"
    command = bench_model.command(args.fovea, target_of(model, folder), "float32", "train", args, batch_size=1, steps=1, warmup=0)
    subprocess.run([str(part) for part in [*command, "--gradients", step]], check=True, env=env, stdout=subprocess.DEVNULL)
    tensors = load_file(step)
    weights = {name.removeprefix("weights."): value for name, value in tensors.items() if name.startswith("weights.")}
    draw = np.random.default_rng(0)
    weights["head.weight"] = (0.02 * draw.standard_normal(weights["head.weight"].shape)).astype(np.float32)
    save_file(weights, folder / "weights.safetensors")
    return folder / "weights.safetensors", tensors["images"].shape[1:]


def export(args, model, weights, batch, folder, env):
    file = folder / f"{model}_{batch}.onnx"
    command = [args.fovea, "export", target_of(model, folder), "--weights", weights, "--batch-size", batch, file]
    subprocess.run([str(part) for part in command], check=True, env=env, stdout=subprocess.DEVNULL)
    return file


def peer_file(args, peer, file, images, dtype, env):
    """What the peer runs in this dtype: the export, or what its tool makes of that."""
    if dtype != "int8":
        return file
    out = file.with_name(f"{file.stem}_{peer}_int8{'.xml' if peer == 'openvino' else '.onnx'}")
    if not out.exists():
        command = worker_command(args, peer, file, images, dtype, "--quantized", out)
        subprocess.run([str(part) for part in command], check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return out


def compare(args, model, weights, shape, folder, env):
    """Text: how far each peer's logits are from Fovea's, by dtype. Ends the script where it is too far."""
    import numpy as np
    from safetensors.numpy import load_file, save_file

    images = np.random.default_rng(1).standard_normal((4, *shape)).astype(np.float32)
    save_file({"images": images}, folder / "images.safetensors")
    np.save(folder / "images.npy", images)
    np.save(folder / "image.npy", images[:1])
    file = export(args, model, weights, 1, folder, env)
    found = []
    for dtype in args.dtypes:
        ours = folder / "ours.safetensors"
        command = [args.fovea, "predict", target_of(model, folder), folder / "images.safetensors", "--weights", weights, "--dtype", dtype,
                   "--device", "cpu", "--out", ours]
        subprocess.run([str(part) for part in command], check=True, env=env, stdout=subprocess.DEVNULL)
        logits = load_file(ours)["logits"].astype(np.float32)
        for peer in [peer for peer in args.peers if dtype in HAS_DTYPE[peer]]:
            out = folder / "theirs.npy"
            theirs_file = peer_file(args, peer, file, folder / "image.npy", dtype, env)
            command = worker_command(args, peer, theirs_file, folder / "images.npy", dtype, "--out", out)
            subprocess.run([str(part) for part in command], check=True, env=env, stdout=subprocess.DEVNULL)
            theirs = np.load(out)
            difference = abs(logits - theirs).max() / abs(theirs).max()
            limit = LIMITS[dtype]
            if not difference <= limit:
                sys.exit(f"{model}, {peer}, {dtype}: logits differ by {difference:.2e} of the largest; expected at most {limit}")
            found.append(f"{TITLES[peer]} {dtype} {difference:.1e}")
    return f"{model}: " + ", ".join(found)


def race(args, model, weights, shape, batch, dtype, folder, env):
    """-> a list of rounds, each a result by side."""
    import numpy as np

    file = export(args, model, weights, batch, folder, env)
    images = folder / f"batch_{batch}.npy"
    np.save(images, np.random.default_rng(2).standard_normal((batch, *shape)).astype(np.float32))
    workers = {"fovea": predictor_worker(args.predictor, target_of(model, folder), weights, args.threads, dtype, images)}
    for peer in [peer for peer in args.peers if dtype in HAS_DTYPE[peer]]:
        theirs = worker_command(args, peer, peer_file(args, peer, file, images, dtype, env), images, dtype)
        workers[peer] = TimedWorker([str(word) for word in theirs], env=env)
        workers[peer].answer()
    os.sync()  # or the system writes the files while the first one is timed
    for worker in workers.values():
        worker.measure(args.seconds)
    rounds = [{name: workers[name].measure(args.seconds) for name in bench_model.in_turn(workers, turn)} for turn in range(args.rounds)]
    for worker in workers.values():
        worker.close()
    print(f"{model} {dtype} {batch}: " + ", ".join(f"{name} {1e3 * batch / percentile(rounds, name, 0.5):.2f}" for name in workers) + " img/s",
          file=sys.stderr, flush=True)
    for made in folder.glob(f"{file.stem}*"):
        made.unlink()
    return rounds


def percentile(rounds, side, share):
    """Of the milliseconds that a batch took, in all rounds."""
    return bench_model.percentile(sorted(one for turn in rounds for one in turn[side]["milliseconds"]), share)


def batch_ms(measured):
    """Milliseconds of a batch in a turn: by the clock, the median, and of the processor, the mean."""
    return statistics.median(measured["milliseconds"]), 1e3 * measured["cpu_seconds"] / len(measured["milliseconds"])


def ratios(rounds, peer, which):
    """which: of batch_ms. The median of the peer's over Fovea's, above 1 where Fovea is the faster; with their middle half."""
    if peer not in rounds[0]:
        return "-"
    median, low, high = bench_model.middle_half(batch_ms(turn[peer])[which] / batch_ms(turn["fovea"])[which] for turn in rounds)
    return f"{median:.2f} ({low:.2f} to {high:.2f})"


def table(args, results):
    head = ["model", "dtype", "batch", "Fovea img/s"]
    for peer in args.peers:
        head += [f"{TITLES[peer]} img/s", "ratio", "by processor time"]
    head.append("p50 / p99 of a batch, ms: " + ", ".join(TITLES[side] for side in ("fovea", *args.peers)))
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for (model, dtype, batch), rounds in results.items():
        sides = [side for side in ("fovea", *args.peers) if side in rounds[0]]
        middle = {side: percentile(rounds, side, 0.5) for side in sides}
        cells = [model, dtype, str(batch), f"{1e3 * batch / middle['fovea']:.2f}"]
        for peer in args.peers:
            cells.append(f"{1e3 * batch / middle[peer]:.2f}" if peer in middle else "-")
            cells += [ratios(rounds, peer, 0), ratios(rounds, peer, 1)]
        cells.append(", ".join(f"{middle[side]:.1f} / {percentile(rounds, side, 0.99):.1f}" if side in middle else "-"
                               for side in ("fovea", *args.peers)))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def report(args, results, agreement):
    versions = [f"{TITLES[peer]} {importlib.import_module(peer).__version__.split('-')[0]}" for peer in args.peers]
    lines = [
        f"# Inference on a CPU: {', '.join(TITLES[side] for side in ('fovea', *args.peers))}", "",
        f"{provenance.line()} {args.threads} threads. {', '.join(versions)}, on the files of `fovea export` with that batch size.", "",
        f"Command: `benchmarks/vs_openvino.py --models {' '.join(args.models)} --batches {' '.join(map(str, args.batches))} --dtypes "
        f"{' '.join(args.dtypes)} --peers {' '.join(args.peers)} --rounds {args.rounds} --seconds {args.seconds:g} --threads {args.threads}`. "
        f"Each side stands loaded in a process of its own and they take turns of {args.seconds:g} s, {args.rounds} each; images a second are of the median batch of all; a "
        "ratio is the median over the rounds of the peer's time to Fovea's, above 1 where Fovea is the faster, in brackets the middle half; by "
        "processor time, which other programs hardly change, likewise.", "",
        "On the same weights and images, largest difference of logits over the largest logit: " + "; ".join(agreement) + ".", "",
        *table(args, results)]
    provenance.show(args, f"vs_openvino_{args.part}" if args.part else "vs_openvino", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--predictor", default=str(ROOT / "build/release/benchmarks/bench_predictor"))
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16, 32])
    parser.add_argument("--dtypes", nargs="+", choices=HAS_DTYPE["fovea"], default=["float32"])
    parser.add_argument("--peers", nargs="+", choices=["openvino", "onnxruntime"], default=["openvino", "onnxruntime"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=1, help="of a turn")
    parser.add_argument("--part", default="")
    for name in ("--worker", "--file", "--images", "--dtype", "--out", "--quantized"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    if args.worker:
        worker(args)
        return
    args.device = "cpu"
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    agreement, results = [], {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for model in args.models:
            weights, shape = save_weights(args, model, folder, env)
            agreement.append(compare(args, model, weights, shape, folder, env))
            for dtype, batch in itertools.product(args.dtypes, args.batches):
                results[model, dtype, batch] = race(args, model, weights, shape, batch, dtype, folder, env)
    report(args, results, agreement)


if __name__ == "__main__":
    main()
