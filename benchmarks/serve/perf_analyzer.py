#!/usr/bin/env python3
"""NVIDIA's perf_analyzer, as PyPI has it, against `fovea serve` and against Triton's Python backend: one command, the same keys.

    python benchmarks/make_photos.py /tmp/photos
    VENV/bin/python benchmarks/serve/perf_analyzer.py /tmp/photos --analyzer VENV/bin/perf_analyzer [--triton-python PYTHON]

VENV is that of vs_servers.py. The wheel of tritonclient 2.41.1 has a perf_analyzer that runs on Debian 12 (that of the package
perf-analyzer wants glibc 2.38), with libb64-0d of Debian and a libcudart.so.12, such as PyPI's nvidia-cuda-runtime-cu12, on
LD_LIBRARY_PATH. What it asks a server for before it begins (metadata, configuration, statistics) is part of what is shown: it
ends with an error where an answer is not as Triton's. On a busy machine: --analyzer-words="--stability-percentage 900".
"""
import argparse
import base64
import csv
import json
import os
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import provenance  # noqa: E402
import vs_servers  # noqa: E402

COLUMNS = {"Inferences/Second": 1, "p50 latency": 1000, "p99 latency": 1000, "Server Queue": 1000, "Server Compute Input": 1000,
           "Server Compute Infer": 1000}  # what a figure of the table is divided by: microseconds to milliseconds


def as_element(photo):
    """As a tensor of BYTES holds it."""
    return struct.pack("<I", len(photo)) + photo


def analyze(args, port, data, folder):
    """-> the analyzer's rows, one for each number of clients."""
    report = folder / "report.csv"
    command = [args.analyzer, "-m", "vit", "-u", f"127.0.0.1:{port}", "-i", "http", "-b", "1", "--input-data", data,
               "--concurrency-range", f"1:{args.clients}:{args.clients - 1}" if args.clients > 1 else "1",
               "--measurement-interval", str(int(1000 * args.seconds)), "--stability-percentage", "30", "--max-trials", "4",
               "-f", report, *args.analyzer_words]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if not report.exists() or report.stat().st_size == 0:
        raise SystemExit(f"perf_analyzer ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    with report.open() as file:
        return sorted(csv.DictReader(file), key=lambda row: int(row["Concurrency"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=pathlib.Path)
    parser.add_argument("--analyzer", default="perf_analyzer", type=pathlib.Path)
    parser.add_argument("--analyzer-words", type=shlex.split, default=[], metavar="'-v'", help="more of its command line")
    parser.add_argument("--fovea", default=str(provenance.ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--sides", nargs="+", choices=["fovea", "triton"], default=["fovea", "triton"])
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--triton-python", default=sys.executable, metavar="PYTHON", help="that has nvidia-pytriton")
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    args.fovea_words = []
    photos = [path.read_bytes() for path in sorted(args.photos.rglob("*.jpg"))[:20]]
    if not photos:
        parser.error(f"{args.photos}: no .jpg; make_photos.py makes some")
    lines = ["| server | clients | " + " | ".join(name + (", ms" if unit > 1 else "") for name, unit in COLUMNS.items()) + " |",
             "| --- |" * 1 + " --- |" * (1 + len(COLUMNS))]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        data = folder / "photos.json"
        data.write_text(json.dumps({"data": [{"image": {"b64": base64.b64encode(as_element(photo)).decode()}} for photo in photos]}))
        weights, onnx = vs_servers.make_models(args, folder)
        for side in args.sides:
            path = folder / f"{side}.log"
            with path.open("w") as log, vs_servers.started(side, args, weights, onnx, log,
                                                           vs_servers.request_of(side, photos[0])) as port:
                if port is None:
                    raise SystemExit(f"{side} did not start:\n{path.read_text()[-2000:]}")
                for row in analyze(args, port, data, folder):
                    figures = [f"{float(row[column]) / unit:.1f}" for column, unit in COLUMNS.items()]
                    lines.append(f"| {vs_servers.TITLES[side]} | {row['Concurrency']} | " + " | ".join(figures) + " |")
    provenance.show(args, "perf_analyzer", [
        "# perf_analyzer against servers of ViT-S/16", "",
        f"{provenance.line()} float32, {args.threads} threads, batches of up to {args.batch}.", "", *lines])


if __name__ == "__main__":
    main()
