"""Clients of gRPC for tools/serve_soak, by the stubs of PyPI's tritonclient[grpc]; a call that is half-sent goes by bytes of our own."""
import socket
import struct

import grpc
from grpc import StatusCode
from soak_http import MAX_BODY, MODELS, PATIENCE, RARE, SIDE, Client, picture, scan
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc


def image_request(source, model, file=None):
    file = picture(source) if file is None else file
    request = pb.ModelInferRequest(model_name=model, raw_input_contents=[struct.pack("<I", len(file)) + file])
    request.inputs.add(name="image", datatype="BYTES", shape=[1, 1])
    return request


def tensor_request(source, rows, side=SIDE, is_raw=True):
    values = [source.random() for _ in range(rows * side * side)]
    request = pb.ModelInferRequest(model_name="tiny")
    tensor = request.inputs.add(name="tensor", datatype="FP32", shape=[rows, 1, side, side])
    if is_raw:
        request.raw_input_contents.append(struct.pack(f"<{len(values)}f", *values))
    else:
        tensor.contents.fp32_contents.extend(values)
    return request


def wanting(request, name):
    request.outputs.add(name=name)
    return request


OK, REFUSED = {StatusCode.OK}, {StatusCode.INVALID_ARGUMENT}
LATE = {*OK, StatusCode.DEADLINE_EXCEEDED, StatusCode.UNAVAILABLE}  # told by the client, or before that by the queue
# Name -> (method, what makes its message from a source of randomness, codes that may answer, options of the call).
KINDS = {
    "image": ("ModelInfer", lambda r: image_request(r, r.choice(MODELS)), OK, {}),
    "volume": ("ModelInfer", lambda r: image_request(r, "slices", scan(r)), OK, {}),
    "tensor": ("ModelInfer", lambda r: tensor_request(r, r.randrange(1, 9)), OK, {}),
    "typed": ("ModelInfer", lambda r: tensor_request(r, 2, is_raw=False), OK, {}),
    "features": ("ModelInfer", lambda r: wanting(tensor_request(r, 2), "features"), OK, {}),
    "impatient": ("ModelInfer", lambda r: tensor_request(r, 1), LATE, {"timeout": 0.01}),
    "no image": ("ModelInfer", lambda r: image_request(r, r.choice(MODELS), r.randbytes(100)), REFUSED, {}),
    "half an image": ("ModelInfer", lambda r: image_request(r, r.choice(MODELS), picture(r)[:40]), REFUSED, {}),
    "another size": ("ModelInfer", lambda r: tensor_request(r, 2, side=2 * SIDE), REFUSED, {}),
    "too many": ("ModelInfer", lambda r: tensor_request(r, 20), REFUSED, {}),
    "nothing": ("ModelInfer", lambda r: pb.ModelInferRequest(model_name="tiny"), REFUSED, {}),
    "oversized": ("ModelInfer", lambda r: image_request(r, "tiny", bytes(2 * MAX_BODY)), {StatusCode.RESOURCE_EXHAUSTED}, {}),
    "compressed": ("ModelInfer", lambda r: image_request(r, "tiny"), {StatusCode.UNIMPLEMENTED}, {"compression": grpc.Compression.Gzip}),
    "nobody's": ("ModelInfer", lambda r: image_request(r, "nobody"), {StatusCode.NOT_FOUND}, {}),
    "guest": ("ModelInfer", lambda r: image_request(r, "guest"), {*OK, StatusCode.UNAVAILABLE}, {}),
    "load": ("RepositoryModelLoad", lambda r: pb.RepositoryModelLoadRequest(model_name="guest"), {*OK, *REFUSED, StatusCode.UNAVAILABLE}, {}),
    "statistics": ("ModelStatistics", lambda r: pb.ModelStatisticsRequest(), OK, {}),
    "config": ("ModelConfig", lambda r: pb.ModelConfigRequest(name=r.choice(MODELS)), OK, {}),
    "memory": ("SystemSharedMemoryStatus", lambda r: pb.SystemSharedMemoryStatusRequest(), {StatusCode.UNIMPLEMENTED}, {}),
}
OTHERS = ["stream", "cancelled", "cut off"]


def http2_frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def half_a_call(source):
    """As bytes of HTTP/2, up to somewhere in its message."""
    def text(of):
        return bytes([len(of)]) + of
    method = source.choice([b"ModelInfer", b"ModelStreamInfer", b"ServerLive"])
    headers = (b"\x83\x86\x04" + text(b"/inference.GRPCInferenceService/" + method) + b"\x01" + text(b"localhost")  # POST, http
               + b"\x0f\x10" + text(b"application/grpc") + b"\0" + text(b"te") + text(b"trailers"))
    message = struct.pack(">BI", 0, 10_000) + source.randbytes(source.randrange(9000))
    call = http2_frame(4, 0, 0, b"") + http2_frame(1, 4, 1, headers) + http2_frame(0, 0, 1, message)
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + call[:source.randrange(len(call))]


class GrpcClient(Client):
    def run(self):
        while not self.stopping.is_set():
            with self.channel() as channel:
                self.stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
                while self.ask_one() and self.random.random() < 0.97 and not self.stopping.is_set():
                    pass

    def channel(self):
        address, options = f"127.0.0.1:{self.port}", [("grpc.use_local_subchannel_pool", 1)]  # a connection of its own
        if not self.certificate:
            return grpc.insecure_channel(address, options)
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(self.certificate.read_bytes()),
                                   [*options, ("grpc.ssl_target_name_override", "localhost")])

    def ask_one(self):
        """Whether to go on with this connection."""
        name = self.random.choice([*KINDS, *OTHERS])
        if name in RARE and self.random.random() < 0.9:
            return True
        try:
            {"stream": self.stream, "cancelled": self.cancel, "cut off": self.cut_off}.get(name, lambda: self.call(name))()
        except OSError as error:
            if not self.stopping.is_set():
                self.faults.append(f"gRPC, {name}: {error}")
        return not self.stopping.is_set()

    def count(self, name, code, expected):
        self.counts["gRPC, " + name, code.name] += 1
        if code not in expected and not (self.stopping.is_set() and code == StatusCode.UNAVAILABLE):
            self.faults.append(f"gRPC, {name}: {code.name}; expected {sorted(one.name for one in expected)}")

    def call(self, name):
        method, make, expected, options = KINDS[name]
        try:
            getattr(self.stub, method)(make(self.random), **{"timeout": PATIENCE, **options})
            code = StatusCode.OK
        except grpc.RpcError as error:
            code = error.code()
        self.count(name, code, expected)

    def stream(self):
        """Of requests, one of which is wrong: the others are answered all the same."""
        wrong = self.random.randrange(4)
        requests = [image_request(self.random, "nobody" if i == wrong else "tiny") for i in range(4)]
        try:
            errors = [answer.error_message for answer in self.stub.ModelStreamInfer(iter(requests), timeout=PATIENCE)]
            code = StatusCode.OK
            if [bool(error) for error in errors] != [i == wrong for i in range(4)] and not self.stopping.is_set():
                self.faults.append(f"gRPC, stream: {errors}; expected an error at {wrong} alone")
        except grpc.RpcError as error:
            code = error.code()
        self.count("stream", code, OK)

    def cancel(self):
        self.stub.ModelInfer.future(tensor_request(self.random, 4), timeout=PATIENCE).cancel()
        self.counts["gRPC, cancelled", "left"] += 1

    def cut_off(self):
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(half_a_call(self.random))
        self.counts["gRPC, cut off", "left"] += 1
