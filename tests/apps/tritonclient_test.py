#!/usr/bin/env python3
"""PyPI tritonclient[http], unchanged, against `fovea serve`: what it asks for and what it reads of the answers.

usage: tritonclient_test.py FOVEA. Exit code 77: no tritonclient here ($FOVEA_PYTHON may name an interpreter that has it).
"""
import os
import pathlib
import signal
import sys
import tempfile

if os.environ.get("FOVEA_PYTHON") and os.environ.get("FOVEA_TRITONCLIENT") is None:
    os.execvpe(os.environ["FOVEA_PYTHON"], [os.environ["FOVEA_PYTHON"], *sys.argv], {**os.environ, "FOVEA_TRITONCLIENT": "1"})
try:
    import numpy as np
    import tritonclient.http as triton
    from tritonclient.utils import InferenceServerException
except ImportError as missing:
    print(f"tritonclient_test: skipped, {missing}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tools"))
import served_program  # noqa: E402
import tiny_run  # noqa: E402

RECIPE = """
model: {name: vit, img_size: [32], patch_size: [8], embed_dim: 32, depth: 2, num_heads: 2, num_classes: 4}
"""


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"tritonclient_test: {' '.join(map(str, what))}")


def png(seed, side=32):
    """An RGB image."""
    pixels = bytes((seed + 7 * x + 3 * y + c) % 256 for y in range(side) for x in range(side) for c in range(3))
    return tiny_run.png(pixels, side, channels=3)


def images(*files):
    one = triton.InferInput("image", [len(files), 1], "BYTES")
    one.set_data_from_numpy(np.array([[file] for file in files], dtype=object), binary_data=True)
    return [one]


def refused(call, *words):
    try:
        call()
    except InferenceServerException as error:
        check(all(word in error.message() for word in words), "said", error.message(), "and not", *words)
        return
    check(False, "was taken, though it should have been refused with", *words)


def check_server(client):
    check(client.is_server_live() and client.is_server_ready() and client.is_model_ready("tiny"), "the server is not ready")
    check("binary_tensor_data" in client.get_server_metadata()["extensions"], "extensions")
    check([one["name"] for one in client.get_model_metadata("tiny")["inputs"]] == ["image", "tensor"], "metadata")
    check(client.get_model_config("tiny")["max_batch_size"] == 8, "config")
    check(client.get_model_repository_index()[0]["state"] == "READY", "index")


def check_answers(client):
    files = [png(seed) for seed in (0, 50, 99)]
    answer = client.infer("tiny", images(*files), request_id="7")
    scores, labels = answer.as_numpy("scores"), answer.as_numpy("labels")
    check(answer.get_response()["id"] == "7", "id")
    check(scores.shape == (3, 4) and scores.dtype == np.float32 and np.allclose(scores.sum(1), 1), "scores", scores)
    check([int(label) for label in labels[:, 0]] == list(scores.argmax(1)), "labels", labels)
    best = client.infer("tiny", images(files[0]), outputs=[triton.InferRequestedOutput("scores", class_count=2)]).as_numpy("scores")
    value, index = best[0, 0].decode().split(":")
    check(int(index) == scores[0].argmax() and abs(float(value) - scores[0].max()) < 1e-5, "classification", best)
    as_json = client.infer("tiny", images(files[0]), outputs=[triton.InferRequestedOutput("scores", binary_data=False)])
    check(np.allclose(as_json.as_numpy("scores"), scores[:1], atol=1e-6), "scores as JSON")
    shown = client.infer("tiny", images(files[0]), outputs=[triton.InferRequestedOutput("attention")]).as_numpy("attention")
    check(shown[0, 0].startswith(b"\x89PNG"), "attention")
    packed = client.infer("tiny", images(*files), request_compression_algorithm="gzip", response_compression_algorithm="gzip")
    check((packed.as_numpy("scores") == scores).all(), "gzip")
    waiting = [client.async_infer("tiny", images(files[i % 3])) for i in range(24)]
    for i, one in enumerate(waiting):
        check(np.allclose(one.get_result().as_numpy("scores")[0], scores[i % 3], atol=1e-6), "asynchronous answer", i)


def check_tensors(client):
    pixels = np.random.default_rng(0).standard_normal((2, 3, 32, 32), dtype=np.float32)
    one = triton.InferInput("tensor", pixels.shape, "FP32")
    scores = []
    for is_binary in (True, False):
        one.set_data_from_numpy(pixels, binary_data=is_binary)
        scores.append(client.infer("tiny", [one]).as_numpy("scores"))
    check(scores[0].shape == (2, 4) and (scores[0] == scores[1]).all(), "tensors", scores)


def check_refusals(client):
    refused(lambda: client.infer("tiny", images(b"no image")), "image")
    refused(lambda: client.infer("tinny", images(png(0))), "tinny", "did you mean")
    refused(lambda: client.infer("tiny", images(png(0)), outputs=[triton.InferRequestedOutput("probabilities")]), "unknown output")
    refused(lambda: client.infer("tiny", images(png(0)), priority=1), "priority")


def check_control(client):
    client.unload_model("tiny")
    check(not client.is_model_ready("tiny"), "the model is still there")
    refused(lambda: client.infer("tiny", images(png(0))), "unloaded")
    client.load_model("tiny")
    check(client.is_model_ready("tiny"), "the model did not come back")
    statistics = client.get_inference_statistics("tiny")["model_stats"][0]
    check(statistics["inference_count"] > 30 and statistics["inference_stats"]["fail"]["count"] >= 1, "statistics", statistics)


def main():
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder) / "tiny.yaml"
        recipe.write_text(RECIPE)
        with served_program.serving(sys.argv[1], f"{recipe}=tiny", "--model-control") as (server, first):
            client = triton.InferenceServerClient(f"127.0.0.1:{first['port']}", concurrency=8)
            for part in (check_server, check_answers, check_tensors, check_refusals, check_control):
                part(client)
            server.send_signal(signal.SIGTERM)
            check(server.wait(30) == 0, "the server ended with", server.returncode)
    print("tritonclient_test: done")


if __name__ == "__main__":
    main()
