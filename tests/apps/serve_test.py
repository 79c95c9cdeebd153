#!/usr/bin/env python3
"""`fovea serve` as its users meet it: ready, asked, told to stop under load, and given what cannot work.

usage: serve_test.py FOVEA. The models are tiny, as they are before training.
"""
import contextlib
import http.client
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import served_program  # noqa: E402
import tiny_run  # noqa: E402

PATIENCE = 60  # seconds; a busy machine takes its time
RAW = {"Inference-Header-Content-Length": "0"}  # the body is one image
INFER = "/v2/models/tiny/infer"
PNG = tiny_run.png(bytes((7 * (x + y)) % 256 for y in range(tiny_run.SIDE) for x in range(tiny_run.SIDE)), tiny_run.SIDE)


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"serve_test: {' '.join(map(str, what))}")


@contextlib.contextmanager
def server(fovea, *words):
    """The process, and the object of its first line."""
    with served_program.serving(fovea, *words, "--threads", "1", stderr=subprocess.PIPE) as (process, first):
        check(first, "no first line:", process.stderr.read() if not first else "")
        yield process, first


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, content


def stop(process):
    """Standard error, of one that ends as it should."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=PATIENCE)
    check(process.returncode == 0, "ended with", process.returncode, errors)
    return errors


def check_answers(fovea, recipe, folder):
    with server(fovea, f"{recipe}=tiny", f"{recipe}=other") as (process, first):
        check(first["models"] == ["tiny", "other"], first)
        port = first["port"]
        check(ask(port, "GET", "/v2/health/ready")[0] == 200, "not ready after its first line")
        check(b"<!DOCTYPE html>" in ask(port, "GET", "/")[1], "no page")
        status, answer = ask(port, "POST", INFER, PNG, RAW)
        check(status == 200 and json.loads(answer)["model_name"] == "tiny", status, answer)
        check(ask(port, "POST", INFER, b"no image", RAW)[0] == 400, "an image that is none")
        check(ask(port, "POST", INFER, zlib.compress(PNG), {**RAW, "Content-Encoding": "deflate"})[1].count(b"tiny") == 1,
              "a compressed body")
        metrics = ask(port, "GET", "/metrics")[1].decode()
        for line in ('fovea_inference_request_success{model="tiny",version="1"} 2',
                     'fovea_inference_request_duration_seconds_count{model="tiny",version="1"} 2',
                     'fovea_model_ready{model="other",version="1"} 1'):
            check(f"{line}\n" in metrics, line, "is not in", metrics)
        check(ask(port, "POST", "/v2/repository/models/tiny/unload")[0] >= 400, "unloads without --model-control")
        if shutil.which("curl"):
            image = folder / "image.png"
            image.write_bytes(PNG)
            done = subprocess.run(["curl", "--silent", "--fail", "-H", "Inference-Header-Content-Length: 0", "--data-binary",
                                   f"@{image}", f"http://127.0.0.1:{port}{INFER}"], capture_output=True, check=False)
            check(done.returncode == 0 and json.loads(done.stdout)["outputs"] == json.loads(answer)["outputs"], "curl", done)
        check_port_in_use(fovea, recipe, port)
        stop(process)


def check_port_in_use(fovea, recipe, port):
    done = subprocess.run([fovea, "serve", recipe, "--port", str(port)], capture_output=True, text=True, check=False)
    check(done.returncode == 3 and f"port {port} of 127.0.0.1 is in use" in done.stderr, "port in use:", done)


class Client(threading.Thread):
    """Asks one thing after another until nobody takes its connections, and counts."""

    def __init__(self, port, image):
        super().__init__(daemon=True)
        self.port, self.image = port, image
        self.answered = self.late = self.lost = self.refused = 0
        self.is_stopped = threading.Event()

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        while True:
            if connection.sock is None:
                try:
                    connection.connect()
                except OSError:
                    return  # the server takes no more
            try:
                connection.request("POST", INFER, self.image, RAW)
                response = connection.getresponse()
                response.read()
                self.answered += response.status == 200
                self.refused += response.status != 200
                self.late += self.is_stopped.is_set()
            except (OSError, http.client.HTTPException):
                self.lost += 1
                return


def check_stop_under_load(fovea, recipe):
    with server(fovea, f"{recipe}=tiny") as (process, first):
        clients = [Client(first["port"], PNG) for _ in range(8)]
        for client in clients:
            client.start()
        deadline = time.monotonic() + PATIENCE
        while sum(client.answered for client in clients) < 100:
            check(time.monotonic() < deadline, "no answers")
            time.sleep(0.01)
        for client in clients:
            client.is_stopped.set()
        stop(process)
        for client in clients:
            client.join(PATIENCE)
        counts = {name: sum(getattr(client, name) for client in clients) for name in ("answered", "late", "lost", "refused")}
        print("SIGTERM under load:", counts)
        check(counts["lost"] == 0 and counts["refused"] == 0, "requests were lost:", counts)
        check(counts["late"] > 0, "none was under way:", counts)


def check_key(fovea, recipe, folder):
    keys = folder / "keys.txt"
    keys.write_text("0123456789abcdef0123456789abcdef\n")
    with server(fovea, f"{recipe}=tiny", "--bearer-file", keys) as (process, first):
        port = first["port"]
        check(ask(port, "GET", "/v2/models/tiny")[0] == 401, "answers without a key")
        check(ask(port, "GET", "/v2/health/ready")[0] == 200, "health wants a key")
        check(ask(port, "GET", "/v2/models/tiny", headers={"Authorization": f"Bearer {keys.read_text().strip()}"})[0] == 200, "a key")
        check(keys.read_text().strip() not in stop(process), "the key is told")


def check_refusals(fovea, recipe, folder):
    refusals = {("nowhere",): 3, (f"{recipe}=a", f"{recipe}=a"): 3, (recipe, "--host", "0.0.0.0"): 3,
                (f"{recipe}=a b",): 3, (recipe, "--tls-key", "x"): 2, (): 2, (recipe, "--max-batch-size", "0"): 3}
    for words, code in refusals.items():
        done = subprocess.run([str(word) for word in (fovea, "serve", *words, "--port", "0")], capture_output=True, text=True,
                              check=False, timeout=PATIENCE)
        check(done.returncode == code and "error: " in done.stderr, words, "gives", done)


def main():
    fovea = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        recipe = folder / "tiny.yaml"
        recipe.write_text(tiny_run.RECIPE.format(folder=folder, side=tiny_run.SIDE, batch=20, epochs=2, micro=2,
                                                 every=tiny_run.CHECKPOINT_EVERY, ranks=1))
        check_answers(fovea, recipe, folder)
        check_stop_under_load(fovea, recipe)
        check_key(fovea, recipe, folder)
        check_refusals(fovea, recipe, folder)


if __name__ == "__main__":
    main()
