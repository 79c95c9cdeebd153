"""The servers that Fovea is measured against, each as its own documents show it: `peers.py NAME PORT WEIGHTS ONNX THREADS BATCH DTYPE`.

litserve   LitServe with timm, requests batched by it
fastapi    FastAPI on uvicorn with onnxruntime, each request by itself
triton     NVIDIA's tritonserver with a Python model, through nvidia-pytriton, requests batched by it

All take the bytes of a JPEG, resize to 248, crop 224, normalise as ImageNet's models are, and answer the best class. timm's models
compute in DTYPE, float32 or bfloat16; onnxruntime, which has no bfloat16 on CPUs, in float32.
"""
import io
import sys

MODEL = "vit_small_patch16_224"
NAME, PORT, WEIGHTS, ONNX, THREADS, BATCH, DTYPE = *sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6]), sys.argv[7]
DELAY_S = 0.0005  # how long a request waits for others


def timm_transform():
    import timm
    from PIL import Image

    model = timm.create_model(MODEL, pretrained=False)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model))
    return model, lambda body: transform(Image.open(io.BytesIO(body)).convert("RGB"))


def timm_model():
    """-> scores [B, classes] of images [B, 3, H, W] float32, and what makes an image of a JPEG's bytes."""
    import safetensors.torch
    import torch

    torch.set_num_threads(THREADS)
    model, transform = timm_transform()
    model.load_state_dict(safetensors.torch.load_file(WEIGHTS))
    dtype = getattr(torch, DTYPE)
    model = model.eval().to(dtype)

    def scores(images):
        with torch.inference_mode():
            return model(images.to(dtype)).float().softmax(-1)

    return scores, transform


if NAME == "litserve":  # its workers, processes of their own, look for the class by its name in this file
    import litserve
    import torch

    class LitServeApi(litserve.LitAPI):
        def setup(self, device):
            self.scores, self.transform = timm_model()

        def decode_request(self, request):
            return self.transform(request["image"].file.read())

        def batch(self, inputs):
            return torch.stack(inputs)

        def predict(self, batch):
            return self.scores(batch)

        def unbatch(self, output):
            return list(output)

        def encode_response(self, output):
            return {"label": int(output.argmax())}


def serve_litserve():
    api = LitServeApi(max_batch_size=BATCH, batch_timeout=DELAY_S)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(port=int(PORT), host="127.0.0.1", log_level="warning", generate_client_file=False)


def serve_fastapi():
    import fastapi
    import numpy
    import onnxruntime
    import uvicorn
    from starlette.concurrency import run_in_threadpool

    _, transform = timm_transform()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    session = onnxruntime.InferenceSession(ONNX, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    app = fastapi.FastAPI()

    def predict(body):
        return {"label": int(numpy.argmax(session.run(None, {name: transform(body).numpy()[None]})[0]))}

    @app.post("/predict")
    async def answer(request: fastapi.Request):
        return await run_in_threadpool(predict, await request.body())

    uvicorn.run(app, host="127.0.0.1", port=int(PORT), log_level="warning")


def serve_triton():
    import numpy
    import torch
    from pytriton.decorators import batch
    from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
    from pytriton.triton import Triton, TritonConfig, TritonSecurityConfig

    scores, transform = timm_model()

    @batch
    def infer(image):
        found = scores(torch.stack([transform(one[0]) for one in image]))
        return {"label": found.argmax(-1, keepdim=True).to(torch.int32).numpy()}

    config = TritonConfig(http_port=int(PORT), grpc_port=int(PORT) + 1, metrics_port=int(PORT) + 2, http_address="127.0.0.1")
    # perf_analyzer reads statistics, which pytriton would keep behind a token of its own.
    with Triton(config=config, security_config=TritonSecurityConfig(restricted_endpoints=[])) as triton:
        triton.bind(model_name="vit", infer_func=infer, inputs=[Tensor(name="image", dtype=bytes, shape=(1,))],
                    outputs=[Tensor(name="label", dtype=numpy.int32, shape=(1,))],
                    config=ModelConfig(max_batch_size=BATCH, batcher=DynamicBatcher(max_queue_delay_microseconds=int(1e6 * DELAY_S))))
        triton.serve()


if __name__ == "__main__":
    {"litserve": serve_litserve, "fastapi": serve_fastapi, "triton": serve_triton}[NAME]()
