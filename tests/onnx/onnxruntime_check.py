"""Runs every MODEL.onnx of a folder with ONNX Runtime on MODEL.INPUT.npy, whole and one sample at a time, and prints
the largest difference from MODEL.OUTPUT.npy of each model as JSON.

    onnxruntime_check.py FOLDER
"""
import json
import pathlib
import sys

import numpy
import onnxruntime

TYPES = {"tensor(float)": numpy.float32, "tensor(int64)": numpy.int64, "tensor(bool)": bool}


def worst_difference(model):
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    base = str(model)[:-len(".onnx")]
    inputs = {port.name: numpy.load(f"{base}.{port.name}.npy").astype(TYPES[port.type]) for port in session.get_inputs()}
    size = len(next(iter(inputs.values())))
    names = [output.name for output in session.get_outputs()]
    worst = 0.0
    for batch in [slice(0, size)] + [slice(i, i + 1) for i in range(size)]:
        given = {name: values[batch] for name, values in inputs.items()}
        for name, found in zip(names, session.run(names, given)):
            expected = numpy.load(f"{base}.{name}.npy")[batch]
            assert found.shape == expected.shape and found.dtype == numpy.float32, (model, name, found.shape)
            assert numpy.abs(expected).max() > 1e-2, (model, name)
            worst = max(worst, float(numpy.abs(found - expected).max()))
    return worst


def main():
    models = sorted(pathlib.Path(sys.argv[1]).glob("*.onnx"))
    print(json.dumps({model.stem: worst_difference(model) for model in models}))


if __name__ == "__main__":
    main()
