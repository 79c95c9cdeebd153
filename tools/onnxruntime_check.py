#!/usr/bin/env python3
"""Runs every MODEL.onnx of a folder with ONNX Runtime on MODEL.INPUT.npy, the batch as a whole and, where the model takes
any batch, sample by sample, and prints as JSON how far each is from MODEL.OUTPUT.npy.

    onnxruntime_check.py FOLDER

A model's line: worst, the largest difference; largest, the largest number that was expected. Exit code 9: this Python has
no onnxruntime.
"""
import importlib.util
import json
import pathlib
import sys

MISSING = 9


def compare(model):
    import numpy
    import onnxruntime
    types = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(bool)": bool}
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    base = str(model)[:-len(".onnx")]
    inputs = {port.name: numpy.load(f"{base}.{port.name}.npy").astype(types[port.type]) for port in session.get_inputs()}
    size = len(next(iter(inputs.values())))
    takes_any = isinstance(session.get_inputs()[0].shape[0], str)
    names = [output.name for output in session.get_outputs()]
    worst = largest = 0.0
    for batch in [slice(0, size)] + [slice(i, i + 1) for i in range(size if takes_any else 0)]:
        given = {name: values[batch] for name, values in inputs.items()}
        for name, found in zip(names, session.run(names, given)):
            expected = numpy.load(f"{base}.{name}.npy")[batch]
            if found.shape != expected.shape or found.dtype != numpy.float32:
                sys.exit(f"{model}: {name} is {found.dtype} {found.shape}; expected float32 {expected.shape}")
            worst = max(worst, float(numpy.abs(found - expected).max()))
            largest = max(largest, float(numpy.abs(expected).max()))
    return {"worst": worst, "largest": largest, "onnxruntime": onnxruntime.__version__}


def main():
    if any(importlib.util.find_spec(name) is None for name in ("numpy", "onnxruntime")):
        sys.exit(MISSING)
    models = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
    print(json.dumps({model.stem: compare(model) for model in models}))


if __name__ == "__main__":
    main()
