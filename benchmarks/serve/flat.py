#!/usr/bin/env python3
"""Whether `fovea serve` keeps anything of its requests: memory and descriptors over many of them, to a model that is tiny, so that
the server itself does most of the work. A sixth of the requests are damaged, or of clients that leave before their answer.

    python3 benchmarks/serve/flat.py [--requests 100000] [--clients 16]
"""
import argparse
import pathlib
import signal
import socket
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "benchmarks/serve"), str(ROOT / "tools")]
import load  # noqa: E402
import served_program  # noqa: E402
import tiny_run  # noqa: E402

SLICE_SECONDS = 5


def state_of(pid):
    """-> resident MiB, open descriptors."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    return resident / 1024, len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


def request_of(body):
    return (f"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: 0\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


def misbehave(port, request, count):
    """Damaged requests, and clients that leave."""
    for number in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall([request[:-5], b"no request\r\n\r\n", request[:60], request_of(b"no image")][number % 4])
            if number % 2:
                client.recv(1 << 16)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=16)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder) / "tiny.yaml"
        recipe.write_text(tiny_run.RECIPE.format(folder=folder, side=tiny_run.SIDE, batch=20, epochs=2, micro=2, every=3, ranks=1))
        with served_program.serving(args.fovea, f"{recipe}=tiny", "--threads", "1") as (process, first):
            port = first["port"]
            request = request_of(tiny_run.png(bytes((7 * (x + y)) % 256 for y in range(tiny_run.SIDE) for x in range(tiny_run.SIDE)), tiny_run.SIDE))
            done = 0
            while done < args.requests:
                rate, latencies = load.run(port, [request], args.clients, SLICE_SECONDS, warm_up=0)
                misbehave(port, request, len(latencies) // 5)
                done += len(latencies) + len(latencies) // 5
                resident, descriptors = state_of(process.pid)
                print(f"{done} requests, {rate:.0f} a second: {resident:.1f} MiB, {descriptors} descriptors", flush=True)
            process.send_signal(signal.SIGTERM)
            print("exit code", process.wait(60))


if __name__ == "__main__":
    main()
