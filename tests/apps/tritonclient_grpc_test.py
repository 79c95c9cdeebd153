#!/usr/bin/env python3
"""PyPI tritonclient[grpc], unchanged, against `fovea serve --grpc-port`: the same answers as over HTTP, and streams.

usage: tritonclient_grpc_test.py FOVEA. Exit code 77: no tritonclient here ($FOVEA_PYTHON may name an interpreter that has it), or
no libfovea_grpc.so.
"""
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile

import tritonclient_test as of_http
from tritonclient_test import check, np

try:
    import tritonclient.grpc as triton
    import tritonclient.http
    from tritonclient.utils import InferenceServerException
except ImportError as missing:
    print(f"tritonclient_grpc_test: skipped, {missing}")
    sys.exit(77)

PATIENCE = 60  # seconds


def images(*files):
    one = triton.InferInput("image", [len(files), 1], "BYTES")
    one.set_data_from_numpy(np.array([[file] for file in files], dtype=object))
    return [one]


def refused(call, status, *words):
    try:
        call()
    except InferenceServerException as error:
        check(error.status() == f"StatusCode.{status}", "status", error.status(), "and not", status)
        check(all(word in error.message() for word in words), "said", error.message(), "and not", *words)
        return
    check(False, "was taken, though it should have been refused with", *words)


def check_server(client):
    check(client.is_server_live() and client.is_server_ready() and client.is_model_ready("tiny"), "the server is not ready")
    check(not client.is_model_ready("other"), "a model that there is not is ready")
    check("binary_tensor_data" in client.get_server_metadata().extensions, "extensions")
    check([one.name for one in client.get_model_metadata("tiny").inputs] == ["image", "tensor"], "metadata")
    config = client.get_model_config("tiny").config
    check(config.max_batch_size == 8 and config.dynamic_batching.default_queue_policy.max_queue_size == 128, "config", config)
    check(client.get_model_repository_index().models[0].state == "READY", "index")
    check(client.get_server_metadata(as_json=True)["name"] == "fovea", "JSON")


def check_answers(client, over_http):
    files = [of_http.png(seed) for seed in (0, 50, 99)]
    answer = client.infer("tiny", images(*files), request_id="7")
    scores, labels = answer.as_numpy("scores"), answer.as_numpy("labels")
    check(answer.get_response().id == "7" and scores.shape == (3, 4), "answer", answer.get_response())
    expected = over_http.infer("tiny", of_http.images(*files))
    check((scores == expected.as_numpy("scores")).all() and (labels == expected.as_numpy("labels")).all(), "not the bits of HTTP")
    best = client.infer("tiny", images(files[0]), outputs=[triton.InferRequestedOutput("scores", class_count=2)]).as_numpy("scores")
    check(int(best[0, 0].decode().split(":")[1]) == scores[0].argmax(), "classification", best)
    shown = client.infer("tiny", images(files[0]), parameters={"attention": True}).as_numpy("attention")
    check(shown[0, 0].startswith(b"\x89PNG"), "attention")
    results = queue.Queue()
    for _ in range(24):
        client.async_infer("tiny", images(files[0]), callback=lambda result, error: results.put((result, error)))
    for _ in range(24):
        result, error = results.get(timeout=PATIENCE)
        check(error is None and np.allclose(result.as_numpy("scores")[0], scores[0], atol=1e-6), "asynchronous answer", error)


def check_stream(client):
    results = queue.Queue()
    client.start_stream(callback=lambda result, error: results.put((result, error)))
    files = [of_http.png(0), b"no image", of_http.png(1)]
    for i, file in enumerate(files):
        client.async_stream_infer("tiny", images(file), request_id=str(i))
    for i in range(len(files)):
        result, error = results.get(timeout=PATIENCE)
        check((error is not None) == (i == 1), "answer", i, "of a stream:", error)
        check(error is not None or result.get_response().id == str(i), "the order of a stream")
    client.stop_stream()


def check_refusals(client):
    refused(lambda: client.infer("tiny", images(b"no image")), "INVALID_ARGUMENT", "image")
    refused(lambda: client.infer("tinny", images(of_http.png(0))), "NOT_FOUND", "tinny", "did you mean")
    refused(lambda: client.infer("tiny", images(of_http.png(0)), priority=1), "INVALID_ARGUMENT", "priority")
    refused(lambda: client.infer("tiny", images(bytes(2 << 20))), "RESOURCE_EXHAUSTED", "larger")
    refused(lambda: client.infer("tiny", images(of_http.png(0)), client_timeout=1e-6), "DEADLINE_EXCEEDED")
    refused(client.get_system_shared_memory_status, "UNIMPLEMENTED")


def check_control(client):
    client.unload_model("tiny")
    check(not client.is_model_ready("tiny"), "the model is still there")
    refused(lambda: client.infer("tiny", images(of_http.png(0))), "UNAVAILABLE", "unloaded")
    client.load_model("tiny")
    check(client.is_model_ready("tiny"), "the model did not come back")
    statistics = client.get_inference_statistics("tiny").model_stats[0]
    check(statistics.inference_count > 30 and statistics.inference_stats.fail.count >= 1, "statistics", statistics)


def main():
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder) / "tiny.yaml"
        recipe.write_text(of_http.RECIPE)
        with of_http.served_program.serving(sys.argv[1], f"{recipe}=tiny", "--grpc-port", "0", "--model-control", "--max-body", "1",
                                            stderr=subprocess.PIPE) as (server, first):
            if not first:
                errors = server.stderr.read()
                check("wants libfovea_grpc.so" in errors, "no first line:", errors)
                print("tritonclient_grpc_test: skipped, libfovea_grpc.so is not built")
                sys.exit(77)
            client = triton.InferenceServerClient(f"127.0.0.1:{first['grpc_port']}")
            check_server(client)
            check_answers(client, tritonclient.http.InferenceServerClient(f"127.0.0.1:{first['port']}"))
            for part in (check_stream, check_refusals, check_control):
                part(client)
            client.close()
            server.send_signal(signal.SIGTERM)
            _, errors = server.communicate(timeout=PATIENCE)
            check(server.returncode == 0, "the server ended with", server.returncode, errors)
    print("tritonclient_grpc_test: done")


if __name__ == "__main__":
    main()
