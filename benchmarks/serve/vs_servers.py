#!/usr/bin/env python3
"""`fovea serve` against LitServe with timm, FastAPI with onnxruntime, and Triton's Python backend: ViT-S/16 on photographs of
500 x 375, images a second and how long an answer takes, with 1 to 16 clients. All servers stand ready and take turns of a few
seconds, so that what slows the machine for longer slows all; the load generator shares their processors. What the server costs
beside the model: with one client, it and a `Predictor` in a process of its own take turns of a second or two.

    cmake --build --preset release --target fovea bench_predictor
    python benchmarks/make_photos.py /tmp/photos
    VENV/bin/python benchmarks/serve/vs_servers.py /tmp/photos [--rounds 6] [--seconds 4] [--write]

VENV has what tools/setup/python_env makes, litserve, fastapi, uvicorn and python-multipart. Triton needs nvidia-pytriton with the
numpy < 2 that it asks for, and torch, timm and Pillow, in an environment of the Python that Debian has (its Python backend is
linked with that one): --triton-python names it. A server that does not start is named in the report.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "tools")]
import bench_model  # noqa: E402
import load  # noqa: E402
import provenance  # noqa: E402
import tiny_run  # noqa: E402
from timed_worker import predictor_worker  # noqa: E402

MODEL = "vit_small_patch16_224"
TITLES = {"fovea": "Fovea", "litserve": "LitServe, timm", "fastapi": "FastAPI, onnxruntime", "triton": "Triton, Python backend"}
PATHS = {"fovea": "/v2/models/vit/infer", "litserve": "/predict", "fastapi": "/predict", "triton": "/v2/models/vit/infer"}
START_SECONDS = 120
TURNS = 5  # of the server and the predictor in a round


def request_of(side, photo):
    """The bytes of one HTTP request."""
    headers = "Content-Type: application/octet-stream\r\n"
    body = photo
    if side == "fovea":
        headers += "Inference-Header-Content-Length: 0\r\n"
    if side == "litserve":  # which takes files in forms
        headers = "Content-Type: multipart/form-data; boundary=--a-photo\r\n"
        body = (b'----a-photo\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\nContent-Type: image/jpeg\r\n\r\n'
                + photo + b"\r\n----a-photo--\r\n")
    if side == "triton":  # which takes the bare form of one-dimensional models alone
        head = json.dumps({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1, 1],
                                       "parameters": {"binary_data_size": len(photo) + 4}}]}).encode()
        headers += f"Inference-Header-Content-Length: {len(head)}\r\n"
        body = head + struct.pack("<I", len(photo)) + photo
    return f"POST {PATHS[side]} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def label_of(side, answer):
    """The best class, of an answer."""
    value = json.loads(answer)
    if side in ("litserve", "fastapi"):
        return value["label"]
    outputs = {output["name"]: output["data"] for output in value["outputs"]}
    if side == "triton":
        return outputs["label"][0]
    scores = outputs["scores"]
    return scores.index(max(scores))


def make_models(args, folder):
    """-> the weights of timm's model at random, and the same as ONNX."""
    weights, onnx = folder / "vit.safetensors", folder / "vit.onnx"
    subprocess.run([sys.executable, "-c", f"import timm, safetensors.torch as s, torch; torch.manual_seed(0); "
                    f"s.save_file(timm.create_model('{MODEL}').state_dict(), '{weights}')"], check=True)
    subprocess.run([args.fovea, "export", MODEL, str(onnx), "--weights", str(weights)], check=True, stdout=subprocess.DEVNULL)
    return weights, onnx


def command_of(side, args, port, weights, onnx):
    if side == "fovea":
        return [args.fovea, "serve", f"{MODEL}=vit", "--weights", weights, "--port", port, "--threads", args.threads,
                "--max-batch-size", args.batch, "--dtype", args.dtype]
    python = args.triton_python if side == "triton" else sys.executable
    return [python, HERE / "peers.py", side, port, weights, onnx, args.threads, args.batch, peers_dtype(args.dtype)]


def peers_dtype(dtype):
    """timm's: beside int8, which it has not, the fastest that the processor has."""
    if dtype != "int8":
        return dtype
    return "bfloat16" if "avx512_bf16" in provenance.processor()[1] else "float32"


@contextlib.contextmanager
def started(side, args, weights, onnx, log, request):
    """-> its port, when it answers; nothing where it does not."""
    port = tiny_run.free_port()
    process = subprocess.Popen([str(word) for word in command_of(side, args, port, weights, onnx)], stdout=log, stderr=log,
                               start_new_session=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    try:
        deadline = time.monotonic() + START_SECONDS
        answer = None
        while answer is None and process.poll() is None and time.monotonic() < deadline:
            try:
                label_of(side, load.ask(port, request))
                answer = True
            except (OSError, SystemExit, ValueError, KeyError):
                time.sleep(0.3)
        yield port if answer else None
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def answered(port):
    """-> (requests that the server has answered, the milliseconds from their arrival to their answer, by its own clock)."""
    success = json.loads(load.ask(port, b"GET /v2/models/vit/stats HTTP/1.1\r\nHost: localhost\r\n\r\n"))[
        "model_stats"][0]["inference_stats"]["success"]
    return success["count"], success["ns"] / 1e6


def against_predictor(args, port, requests, predictor):
    """-> by turns: mean milliseconds of an image, (with one client of the server: by the client's clock, by the server's; of the predictor)."""
    turns = []
    for turn in range(TURNS):
        sides = {}
        for side in ("server", "predictor")[::1 if turn % 2 else -1]:
            if side == "server":
                before = answered(port)
                sides["client"] = statistics.fmean(load.run(port, requests, 1, args.seconds / TURNS, warm_up=0.2)[1])
                after = answered(port)
                sides[side] = (after[1] - before[1]) / (after[0] - before[0])
            else:
                predictor.measure(0.2)
                sides[side] = statistics.fmean(predictor.measure(args.seconds / TURNS)["milliseconds"])
        turns.append((sides["client"], sides["server"], sides["predictor"]))
    return turns


def start_all(args, photos, weights, onnx, folder, stack):
    """-> (port, requests) by side, and of what did not start its last words."""
    sides, failed = {}, {}
    for side in args.sides:
        requests = [request_of(side, photo) for photo in photos]
        path = folder / f"{side}.log"
        log = stack.enter_context(path.open("w"))
        port = stack.enter_context(started(side, args, weights, onnx, log, requests[0]))
        if port is None:
            failed[side] = (path.read_text().strip().splitlines() or ["no word"])[-1][:200]
            print(f"{side} did not start: {failed[side]}", file=sys.stderr)
        else:
            sides[side] = port, requests
    return sides, failed


def measure(args, photos, weights, onnx, folder):
    """By side and concurrency: (images a second, p50, p99) of each round; labels by side; what did not start; and turns of
    against_predictor."""
    found, turns = {}, []
    with contextlib.ExitStack() as stack:
        sides, failed = start_all(args, photos, weights, onnx, folder, stack)
        labels = {side: [label_of(side, load.ask(port, request)) for request in requests[:20]] for side, (port, requests) in sides.items()}
        for concurrency in args.concurrency:
            for turn in range(args.rounds):
                for side in bench_model.in_turn(sides, turn):
                    rate, latencies = load.run(*sides[side], concurrency, args.seconds)
                    found.setdefault((side, concurrency), []).append(
                        (rate, bench_model.percentile(latencies, 0.5), bench_model.percentile(latencies, 0.99)))
            print(f"{concurrency} clients: measured", file=sys.stderr, flush=True)
        if "fovea" in sides and pathlib.Path(args.predictor).exists():
            predictor = predictor_worker(args.predictor, MODEL, weights, args.threads, args.dtype, *args.files)
            predictor.measure(1)
            for _ in range(args.rounds):
                turns += against_predictor(args, *sides["fovea"], predictor)
            predictor.close()
    return found, labels, failed, turns


def surplus(turns):
    """Lines about what the server costs beside the model."""
    if not turns:
        return ["What one client pays over `Predictor` was not measured: bench_predictor is not built."]
    client, server, alone = (statistics.median(column) for column in zip(*turns))

    def over(which):
        return "{:+.1f} % ({:+.1f} to {:+.1f} %)".format(
            *(100 * ratio - 100 for ratio in bench_model.middle_half(turn[which] / turn[2] for turn in turns)))

    return [f"With one client an answer takes {client:.2f} ms by the client's clock, {over(0)} over `Predictor` alone, which takes {alone:.2f} ms "
            f"for the same photographs; {server:.2f} ms by the server's, from the arrival of the request, {over(1)}. Medians of {len(turns)} "
            "pairs of turns, with the middle half."]


def table(args, found):
    sides = [side for side in args.sides if (side, args.concurrency[0]) in found]
    peers = [side for side in sides if side != "fovea" and "fovea" in sides]
    lines = ["| clients | " + " | ".join(f"{TITLES[side]}: images/s | p50, ms | p99, ms" for side in sides) + " | "
             + " | ".join(f"against {TITLES[side]}" for side in peers) + " |",
             "| --- |" + " --- |" * (3 * len(sides) + len(peers))]
    for concurrency in args.concurrency:
        middle = {side: [statistics.median(column) for column in zip(*found[side, concurrency])] for side in sides}
        cells = [f"{value:.1f}" for side in sides for value in middle[side]]
        for side in peers:
            rounds = zip(found["fovea", concurrency], found[side, concurrency])
            median, low, high = bench_model.middle_half(own[0] / peer[0] for own, peer in rounds)
            cells.append(f"{median:.2f}x ({low:.2f} to {high:.2f})")
        lines.append(f"| {concurrency} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("--fovea", default=str(provenance.ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--predictor", default=str(provenance.ROOT / "build/release/benchmarks/bench_predictor"))
    parser.add_argument("--sides", nargs="+", choices=list(TITLES), default=list(TITLES))
    parser.add_argument("--concurrency", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--seconds", type=float, default=4, help="of a turn")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16, help="largest batch, of those that batch")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--triton-python", default=sys.executable, metavar="PYTHON", help="that has nvidia-pytriton")
    parser.add_argument("--dtype", choices=["float32", "bfloat16", "int8"], default="float32",
                        help="of Fovea and timm, which has no int8: bfloat16, or float32 where that is slow, stands beside it; onnxruntime's "
                             "is float32")
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    args.files = sorted(args.photos.rglob("*.jpg"))[:100]
    photos = [path.read_bytes() for path in args.files]
    if not photos:
        parser.error(f"{args.photos}: no .jpg; make_photos.py makes some")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        found, labels, failed, turns = measure(args, photos, *make_models(args, folder), folder)
    theirs = peers_dtype(args.dtype)
    beside = "" if theirs == args.dtype else f" (timm: {theirs})"
    agree = [f"{TITLES[side]} {sum(a == b for a, b in zip(labels[side], labels['fovea']))} of {len(labels[side])}"
             for side in labels if side != "fovea" and "fovea" in labels]
    provenance.show(args, "serve" if args.dtype == "float32" else f"serve_{args.dtype}", [
        "# Servers of ViT-S/16", "",
        f"{provenance.line()} {args.dtype}{beside}, {args.threads} threads, batches of up to {args.batch}, {len(photos)} JPEGs, medians of {args.rounds} "
        f"rounds of turns of {args.seconds:g} s, and of their ratios with the middle half of them; the load comes from the same processors.", "",
        *table(args, found), "",
        *([*surplus(turns), ""] if "fovea" in args.sides else []),
        *([f"Photographs on whose best class they agree with Fovea: {', '.join(agree)}."] if agree else []),
        *[f"{TITLES[side]} did not start: {why}" for side, why in failed.items()]])


if __name__ == "__main__":
    main()
