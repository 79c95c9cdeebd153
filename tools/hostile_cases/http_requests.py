"""Requests to `fovea serve`, whole: their heads and their bodies."""
import gzip
import json
import struct

from . import layers
from .images import png
from .originals import IMAGES, Original, put, recipe
from .served_request import WORD

PIXELS = [i % 10 / 10 for i in range(64)]


def request(body, headers):
    lines = ["POST /v2/models/tiny/infer HTTP/1.1", "Host: localhost", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


def infer_text(**more):
    tensor = {"name": "tensor", "datatype": "FP32", "shape": [1, 1, 8, 8], **more}
    wanted = {"name": "scores", "parameters": {"classification": 2}}
    return json.dumps({"id": "7", "inputs": [tensor], "outputs": [wanted], "parameters": {"timeout": 9_000_000}}).encode()


def body_of(data, source):
    """The body, with its length in the head set right."""
    del source
    head, end, inside = data.partition(b"\r\n\r\n")

    def put_back(changed):
        return head.replace(b"Content-Length: %d" % len(inside), b"Content-Length: %d" % len(changed)) + end + changed
    return inside, put_back


def made(folder, program):
    del program
    put(folder / "tiny.yaml", recipe("format: folder, path: photos", channels=1, transforms=IMAGES))
    put(folder / "json.http", request(infer_text(data=PIXELS), []))
    text = infer_text(parameters={"binary_data_size": 256})
    put(folder / "binary.http", request(text + struct.pack("<64f", *PIXELS), [f"Inference-Header-Content-Length: {len(text)}"]))
    image = png(channels=1)
    put(folder / "image.http", request(image, ["Inference-Header-Content-Length: 0"]))
    put(folder / "packed.http", request(gzip.compress(image, mtime=0),
                                        ["Inference-Header-Content-Length: 0", "Content-Encoding: gzip"]))


def http(name):
    return Original(f"http {name}", "requests", f"{name}.http", [f"{WORD} tiny.yaml {name}.http"],
                    layers=(layers.whole, body_of, body_of), is_text=name == "json", lies_in_a_folder=False)


GROUPS = {"requests": made}
ORIGINALS = [http("binary"), http("json"), http("image"), http("packed")]
