"""Clients of HTTP for tools/serve_soak: requests of all kinds, good and bad, each with the statuses that may answer it."""
import collections
import gzip
import json
import random
import socket
import ssl
import struct
import threading

import tiny_run
from hostile_cases.arrays import nifti

PATIENCE = 300  # s, for an answer and for the start: sanitizers take their time
MAX_BODY = 1 << 20
SIDE = tiny_run.SIDE
MODELS = ["tiny", "packed", "adaptive"]


def picture(source):
    pixels = bytes(source.randrange(256) for _ in range(SIDE * SIDE))
    return tiny_run.png(pixels, SIDE)


def post(path, body, headers=""):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def page_request(path):
    return f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()


def image_request(source, model, body=None, headers=""):
    return post(f"/v2/models/{model}/infer", picture(source) if body is None else body,
                "Inference-Header-Content-Length: 0\r\n" + headers)


def tensor_request(source, rows, side=SIDE, more=None):
    values = struct.pack(f"<{rows * side * side}f", *(source.random() for _ in range(rows * side * side)))
    head = {"inputs": [{"name": "tensor", "datatype": "FP32", "shape": [rows, 1, side, side],
                        "parameters": {"binary_data_size": len(values)}}], **(more or {})}
    text = json.dumps(head).encode()
    return post("/v2/models/tiny/infer", text + values, f"Inference-Header-Content-Length: {len(text)}\r\n")


def chunked(source):
    png = picture(source)
    return (b"POST /v2/models/tiny/infer HTTP/1.1\r\nHost: a\r\nInference-Header-Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"%x\r\n" % len(png) + png + b"\r\n0\r\n\r\n")


def scan(source):
    return gzip.compress(nifti((source.randrange(8, 20), 9, source.randrange(1, 6))))


WANTED = {"parameters": {"attention": True, "binary_data_output": True}}
BOMB = gzip.compress(b"\0" * (8 * MAX_BODY))
PAGES = ["/", "/metrics", "/v2/models/stats", "/v2/models/packed"]
ANSWERED, REFUSED = {200}, {400}
# Name -> (what makes the bytes, from a source of randomness; statuses that may answer). None: part of it is sent.
KINDS = {
    "image": (lambda r: image_request(r, r.choice(MODELS)), ANSWERED),
    "volume": (lambda r: image_request(r, "slices", scan(r)), ANSWERED),
    "half a volume": (lambda r: image_request(r, "slices", scan(r)[:-20]), REFUSED),
    "chunked": (chunked, ANSWERED),
    "tensor": (lambda r: tensor_request(r, r.randrange(1, 9), more=r.choice([None, WANTED])), ANSWERED),
    "features": (lambda r: tensor_request(r, 2, more={"outputs": [{"name": "features"}]}), ANSWERED),
    "compressed": (lambda r: image_request(r, "tiny", gzip.compress(picture(r)), "Content-Encoding: gzip\r\n"), ANSWERED),
    "impatient": (lambda r: tensor_request(r, 1, more={"parameters": {"timeout": r.choice([1, 1000, 100_000])}}), {200, 503}),
    "no image": (lambda r: image_request(r, r.choice(MODELS), r.randbytes(100)), REFUSED),
    "half an image": (lambda r: image_request(r, r.choice(MODELS), picture(r)[:40]), REFUSED),
    "another size": (lambda r: tensor_request(r, 2, side=2 * SIDE), REFUSED),
    "too many": (lambda r: tensor_request(r, 20), REFUSED),
    "deep": (lambda r: post("/v2/models/tiny/infer", b"[" * r.randrange(1000, 50_000)), REFUSED),
    "bomb": (lambda r: image_request(r, "tiny", BOMB, "Content-Encoding: gzip\r\n"), {413}),
    "oversized": (lambda r: image_request(r, "tiny", b"").replace(b": 0\r\n\r\n", b": 9000000\r\n\r\n"), {413}),
    "no request": (lambda r: r.randbytes(60) + b"\r\n\r\n", {400, 431, 505}),
    "nobody's": (lambda r: image_request(r, "nobody"), {404}),
    "cut off": (lambda r: tensor_request(r, 3), None),
    "guest": (lambda r: image_request(r, "guest"), {200, 503}),
    "load": (lambda r: post(f"/v2/repository/models/guest/{r.choice(['load', 'unload'])}", b""), {200, 400, 503}),
    "page": (lambda r: page_request(r.choice(PAGES)), ANSWERED),
    "ready": (lambda r: page_request("/v2/health/ready"), {200, 400}),  # not while the guest is loaded
}
RARE = {"load", "bomb"}  # which take the server's time


def read_answer(connection, received):
    """-> (status, whether the connection stays), taken from the front of `received`, a bytearray; nothing where it was closed."""
    needed = None
    while needed is None or len(received) < needed:
        end = received.find(b"\r\n\r\n")
        if end >= 0 and needed is None:
            lines = bytes(received[:end]).lower().split(b"\r\n")
            needed = end + 4 + next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            continue
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        received += piece
    del received[:needed]
    return int(lines[0].split()[1]), b"connection: keep-alive" in lines


class Client(threading.Thread):
    """certificate: a file, of the server; None: without TLS."""

    def __init__(self, port, seed, stopping, certificate=None):
        super().__init__(daemon=True)
        self.port, self.random, self.stopping, self.certificate = port, random.Random(seed), stopping, certificate
        self.tls = ssl.create_default_context(cafile=certificate) if certificate else None
        self.counts, self.faults = collections.Counter(), []

    def run(self):
        while not self.stopping.is_set():
            try:
                with self.connect() as connection:
                    while self.ask(connection):
                        pass
            except OSError as error:
                if not self.stopping.is_set():
                    self.faults.append(f"a connection: {error}")
                return

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        return self.tls.wrap_socket(connection, server_hostname="localhost") if self.tls else connection

    def ask(self, connection):
        """Whether to go on with this connection."""
        name = self.random.choice(list(KINDS))
        if name in RARE and self.random.random() < 0.9:
            return True
        make, expected = KINDS[name]
        request = make(self.random)
        if expected is None:
            connection.sendall(request[:self.random.randrange(len(request))])
            self.counts[name, "left"] += 1
            return False
        ahead = self.random.choice([1, 1, 1, 3]) if expected is ANSWERED else 1
        connection.sendall(request * ahead)
        stays, received = True, bytearray()
        for _ in range(ahead):
            answer = read_answer(connection, received)
            if answer is None:
                self.counts[name, "closed"] += 1
                if not self.stopping.is_set():
                    self.faults.append(f"{name}: closed without an answer")
                return False
            status, stays = answer
            self.counts[name, status] += 1
            is_stop = self.stopping.is_set() and status == 503
            if status not in expected and not is_stop:
                self.faults.append(f"{name}: {status}; expected {sorted(expected)}")
            if not stays:
                break
        return stays and self.random.random() < 0.97 and not self.stopping.is_set()
