"""Makes tests/golden/data_inspect.safetensors: moments of images and volumes as numpy computes them, gray as Pillow does.

    python make_inspect.py        with numpy, pillow==13.0.0, safetensors
"""
import pathlib

import numpy as np
import PIL.Image
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data_inspect.safetensors"
SIZES = [(9, 7, 3), (16, 21, 3), (5, 33, 1), (12, 12, 3), (1, 70, 1)]


def moments(values):
    """[C, 4]: mean, standard deviation, least, largest of [N, C]."""
    values = values.astype(np.float64)
    return np.stack([values.mean(0), values.std(0), values.min(0), values.max(0)], 1)


def main():
    rng = np.random.default_rng(7)
    tensors = {}
    colour, gray = [], []
    for i, (height, width, channels) in enumerate(SIZES):
        low, high = sorted(rng.integers(0, 256, 2))
        image = rng.integers(low, high + 1, (height, width, channels), dtype=np.uint8)
        tensors[f"image.{i}"] = image
        colour.append(np.broadcast_to(image, (height, width, 3)).reshape(-1, 3))
        plain = image[..., 0] if channels == 1 else np.asarray(PIL.Image.fromarray(image).convert("L"))
        gray.append(plain.reshape(-1, 1))
    tensors["moments.3"] = moments(np.concatenate(colour) / 255.0)
    tensors["moments.1"] = moments(np.concatenate(gray) / 255.0)
    volumes = []
    for i, size in enumerate([(3, 5, 4), (2, 6, 7), (1, 9, 3)]):
        volume = rng.normal([[[[40.0]]], [[[-900.0]]]], [[[[3.0]]], [[[250.0]]]], (2, *size)).astype(np.float32)
        tensors[f"volume.{i}"] = volume
        volumes.append(volume.reshape(2, -1).T)
    tensors["moments.volumes"] = moments(np.concatenate(volumes))
    save_file({name: np.ascontiguousarray(value) for name, value in tensors.items()}, OUT)
    print(OUT.name, len(tensors), "tensors,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
