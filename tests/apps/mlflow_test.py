#!/usr/bin/env python3
"""Runs that are followed by MLflow: each value is there once and is that of metrics.jsonl, whatever happens to either side.

usage: mlflow_test.py FOVEA [--kills N] [--server]

Against a stand-in that answers as MLflow does; with --server against the real one, of the environment FOVEA_MLFLOW (python3 -m venv
DIR && DIR/bin/pip install mlflow), on SQLite, and read back by its own client. Without that variable it is skipped (exit code 77).
"""
import argparse
import contextlib
import http.server
import json
import math
import os
import pathlib
import random
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import tiny_run  # noqa: E402

SKIPPED = 77
TOKEN = "t0ken-of-the-test"
READ_BACK = """
import json, sys
from mlflow.tracking import MlflowClient
client = MlflowClient(sys.argv[1])
run = client.get_run(sys.argv[2])
print(json.dumps({
    "status": run.info.status, "name": run.info.run_name, "params": run.data.params, "tags": run.data.tags,
    "metrics": [[name, metric.step, str(metric.value)] for name in run.data.metrics
                for metric in client.get_metric_history(run.info.run_id, name)],
    "files": sorted(file.path for file in client.list_artifacts(run.info.run_id))}))
"""


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"mlflow_test: {' '.join(map(str, what))}")


class StandIn:
    """One experiment and its runs, as MLflow's REST API has them. `mood`: an HTTP status in place of each answer; 0: none."""

    def __init__(self, port=0, certificate=None):
        self.mood, self.runs, self.files, self.has_experiment, self.lock = 0, {}, {}, False, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with outer.lock:
                    status, reply = outer.reply(self.command, self.path, self.headers.get("Authorization"), body)
                text = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.uri = f"http{'s' if certificate else ''}://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def reply(self, method, path, authorization, body):
        if self.mood:
            return self.mood, {"message": "not now"}
        if authorization != f"Bearer {TOKEN}":
            return 401, {"message": "who are you"}
        url = urllib.parse.urlsplit(path)
        if method == "PUT":
            self.files[url.path] = body
            return 200, {}
        asked = dict(urllib.parse.parse_qsl(url.query)) | (json.loads(body) if body else {})
        return self.reply_to(url.path.removeprefix("/api/2.0/mlflow/"), asked)

    def reply_to(self, call, asked):
        missing = 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no such thing"}
        if call == "experiments/get-by-name":
            return (200, {"experiment": {"experiment_id": "1", "lifecycle_stage": "active"}}) if self.has_experiment else missing
        if call == "experiments/create":
            self.has_experiment = True
            return 200, {"experiment_id": "1"}
        if call == "runs/search":
            return 200, {"runs": [self.shown(name) for name, run in self.runs.items() if f"'{run['tags']['fovea.run']}'" in asked["filter"]]}
        if call == "runs/create":
            name = f"r{len(self.runs)}"
            self.runs[name] = {"status": "RUNNING", "name": asked["run_name"], "params": {}, "metrics": [],
                               "tags": {tag["key"]: tag["value"] for tag in asked["tags"]}}
            return 200, {"run": self.shown(name)}
        run = self.runs.get(asked.get("run_id"))
        if run is None:
            return missing
        if call == "runs/update":
            run["status"] = asked["status"]
        if call == "runs/log-batch":
            check(len(asked.get("metrics", [])) <= 1000 and len(asked.get("params", [])) <= 100, "a batch beyond the limits")
            run["metrics"] += [[metric["key"], metric["step"], str(float(metric["value"]))] for metric in asked.get("metrics", [])]
            for kind in ("params", "tags"):
                run[kind].update({pair["key"]: pair["value"] for pair in asked.get(kind, [])})
        return 200, {"run": self.shown(asked["run_id"])}

    def shown(self, name):
        run = self.runs[name]
        last = {}
        for key, step, value in run["metrics"]:
            last[key] = {"key": key, "step": max(step, last.get(key, {"step": step})["step"]), "value": value, "timestamp": 1}
        return {"info": {"run_id": name, "experiment_id": "1", "status": run["status"], "lifecycle_stage": "active",
                         "artifact_uri": f"mlflow-artifacts:/1/{name}/artifacts"},
                "data": {"metrics": list(last.values()), "params": [{"key": key, "value": ""} for key in run["params"]]}}

    def read_back(self, run_id):
        with self.lock:
            return self.runs[run_id] | {"files": sorted(path.rpartition("/")[2] for path in self.files if f"/{run_id}/" in path)}

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class RealServer:
    def __init__(self, environment, folder):
        self.bin = pathlib.Path(environment) / "bin"
        port = tiny_run.free_port()
        self.uri = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([str(self.bin / "mlflow"), "server", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
                                         "--artifacts-destination", f"{folder}/artifacts", "--host", "127.0.0.1", "--port", str(port),
                                         "--workers", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(self.uri + "/health", timeout=5).close()
                return
            time.sleep(0.2)
        raise SystemExit("mlflow_test: mlflow server does not start")

    def read_back(self, run_id):
        done = subprocess.run([str(self.bin / "python"), "-c", READ_BACK, self.uri, run_id], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def close(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()


class Run:
    def __init__(self, fovea, folder, name, epochs):
        self.fovea, self.folder, self.dir = fovea, folder, folder / name
        for part, count in (("train", tiny_run.TRAIN_SAMPLES), ("test", 20)):
            tiny_run.write_images(folder, part, count, seed=1)
        self.recipe = folder / f"{name}.yaml"
        self.recipe.write_text(tiny_run.RECIPE.format(folder=folder, side=tiny_run.SIDE, batch=tiny_run.BATCH, epochs=epochs, micro=8,
                                                      every=tiny_run.CHECKPOINT_EVERY, ranks=1))

    def words(self, *words):
        return [str(self.fovea), *map(str, words)]

    def train_words(self, *overrides):
        return self.words("train", self.recipe, f"run.dir={self.dir}", *overrides)

    def do(self, *words, code=0, variables=None):
        """-> standard output, standard error."""
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=os.environ | (variables or {}))
        check(done.returncode == code, *words, "ended with", done.returncode, done.stdout, done.stderr)
        check(TOKEN not in done.stdout + done.stderr, "the token is shown:", done.stderr)
        return done.stdout, done.stderr

    def lines(self):
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.dir / "metrics.jsonl").read_text().splitlines() if line.endswith("}")]
        return []

    def check_sent(self, server):
        """Once each, with the values that stand there; of what was cut off and trained again the times are those of the first time."""
        run_id = json.loads((self.dir / "mlflow_run.json").read_text())["run_id"]
        there = server.read_back(run_id)
        expected = {(f"{line['split']}/{name}", line["step"]): value for line in self.lines() for name, value in line.items()
                    if name not in ("step", "split")}
        found = {(name, step): float(value) for name, step, value in there["metrics"]}
        check(len(found) == len(there["metrics"]), "values came twice:", len(there["metrics"]), "and", len(found))
        check(found.keys() == expected.keys(), "not there:", sorted(expected.keys() - found.keys())[:5], "; not here:",
              sorted(found.keys() - expected.keys())[:5])
        for (name, step), value in expected.items():
            if name.partition("/")[2] in tiny_run.TIMES:
                continue
            is_same = math.isnan(found[name, step]) if value is None else found[name, step] == value
            check(is_same, name, "of step", step, "is", found[name, step], "there and", value, "here")
        return there


def check_killed_run(fovea, folder, server, kills):
    """A run that is killed again and again while it sends."""
    run = Run(fovea, folder, "killed", epochs=24)
    words = run.train_words(f"log.mlflow={{uri: '{server.uri}', experiment: flowers, artifacts: [report, weights]}}")
    for _ in range(kills):
        before = len(run.lines())
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(run.lines()) < before + 20:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.5))
        process.kill()
        process.wait()
    _, said = run.do(*words)
    check("/runs/" in said, "no address of the run in", said)
    there = run.check_sent(server)
    check(there["status"] == "FINISHED" and there["name"] == "killed", there["status"], there["name"])
    check(there["files"] == ["config.yaml", "report.html", "weights.safetensors"], there["files"])
    check(there["params"]["optim.lr"] == "0.003" if isinstance(server, RealServer) else "optim.lr" in there["params"], there["params"])
    check({"fovea.version", "fovea.hosts", "fovea.processes"} <= there["tags"].keys(), there["tags"])
    return run


def check_away(fovea, folder):
    """Training goes on without the server, and `fovea track` sends all of it."""
    port = tiny_run.free_port()
    uri = f"http://127.0.0.1:{port}"
    run = Run(fovea, folder, "away", epochs=2)
    _, said = run.do(*run.train_words(f"log.mlflow={{uri: '{uri}'}}"))
    check(said.count("it is asked again") == 1, said)
    check("values and 2 files wait" in said and f"fovea track {run.dir}" in said, said)
    server = StandIn(port)
    out, _ = run.do(*run.words("track", run.dir, "--json"))
    sent = json.loads(out)["runs"][0]
    there = run.check_sent(server)
    check(sent["values"] == len(there["metrics"]) > 100 and sent["files"] == 2, sent)
    check(there["status"] == "FINISHED", there["status"])
    out, _ = run.do(*run.words("track", run.dir))
    check("0 values and 0 files sent" in out, out)
    server.close()


def check_bad_input(run, server, folder):
    """Of a run that was sent."""
    track = run.words("track", run.dir)
    (run.dir / "mlflow_run.json").unlink()
    uri = ("--uri", server.uri)
    _, said = run.do(*track, "--uri", "mlruns/here", code=3)
    check("expected http://" in said and "mlflow server" in said, said)
    _, said = run.do(*track, *uri, code=3, variables={"MLFLOW_TRACKING_TOKEN": "another"})
    check("MLFLOW_TRACKING_TOKEN" in said, said)
    empty = folder / "empty"
    empty.mkdir()
    _, said = run.do(*run.words("track", empty, *uri), code=3)
    check("no config.yaml" in said, said)
    shutil.copy(run.dir / "config.yaml", empty)
    _, said = run.do(*run.words("track", empty, *uri), code=4)
    check("no metrics.jsonl" in said, said)
    if shutil.which("openssl"):
        certificate = folder / "certificate.pem"
        run.do("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=127.0.0.1",
               "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", certificate, "-out", folder / "signer.pem")
        certificate.write_text(certificate.read_text() + (folder / "signer.pem").read_text())
        safe = StandIn(certificate=certificate)
        _, said = run.do(*track, "--uri", safe.uri, code=3)
        check("MLFLOW_TRACKING_SERVER_CERT_PATH" in said, said)
        run.do(*track, "--uri", safe.uri, variables={"MLFLOW_TRACKING_SERVER_CERT_PATH": str(folder / "signer.pem")})
        run.check_sent(safe)
        safe.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("fovea", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--server", action="store_true")
    arguments = parser.parse_args()
    fovea = arguments.fovea.resolve()
    for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
        del os.environ[name]
    os.environ["MLFLOW_TRACKING_TOKEN"] = TOKEN
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if arguments.server:
            environment = os.environ.get("FOVEA_MLFLOW")
            if not environment:
                print("mlflow_test: FOVEA_MLFLOW names no environment with mlflow")
                return SKIPPED
            server = RealServer(environment, folder)
            try:
                check_killed_run(fovea, folder, server, arguments.kills)
            finally:
                server.close()
            return 0
        server = StandIn()
        run = check_killed_run(fovea, folder, server, arguments.kills)
        check_bad_input(run, server, folder)
        server.close()
        check_away(fovea, folder)
    return 0


sys.exit(main())
