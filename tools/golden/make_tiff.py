"""Golden files of TIFF images: what tifffile reads out of small files of every kind that is read.

Usage: python tools/golden/make_tiff.py
(numpy 2.2.6, tifffile 2025.5.10, imagecodecs 2025.3.30, safetensors 0.5.3)
Writes tests/golden/data_tiff.safetensors. Keys: "file.NAME" the bytes of a file; "pixels.NAME" its pixels as float32
[H, W, C]. And the starting inputs of the fuzz target, tests/fuzz/corpus/tiff_fuzz/.
"""

import io
import pathlib

import numpy as np
import tifffile
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "tiff_fuzz"
H, W = 37, 45
rng = np.random.default_rng(3)
tensors = {}


def picture(channels, dtype):
    """A slope with a bright disk: packs well, and JPEG keeps it."""
    y, x = np.mgrid[:H, :W]
    planes = [(2 * y + (3 + c) * x) % 200 + 50.0 * ((y - 18) ** 2 + (x - 20 - c) ** 2 < 90) for c in range(channels)]
    values = np.stack(planes, -1)
    if dtype == np.float32:
        return (values / 255 - 0.25).astype(dtype)
    return (values * (1 if dtype == np.uint8 else 117) - (9000 if dtype == np.int16 else 0)).astype(dtype)


def add(name, channels=1, dtype=np.uint8, corpus=False, **options):
    values = picture(channels, dtype)
    if options.get("planarconfig") == "separate":
        values = np.moveaxis(values, -1, 0)
    elif channels == 1:
        values = values[..., 0]
    if channels == 3 and "photometric" not in options:
        options["photometric"] = "rgb"
    options.setdefault("photometric", "minisblack")
    file = io.BytesIO()
    bigtiff, byteorder = options.pop("bigtiff", False), options.pop("byteorder", "<")
    with tifffile.TiffWriter(file, bigtiff=bigtiff, byteorder=byteorder) as writer:
        writer.write(values, metadata=None, **options)
    data = file.getvalue()
    pixels = tifffile.imread(io.BytesIO(data))
    if options.get("planarconfig") == "separate":
        pixels = np.moveaxis(pixels, 0, -1)
    tensors[f"file.{name}"] = np.frombuffer(data, np.uint8).copy()
    tensors[f"pixels.{name}"] = np.ascontiguousarray(pixels.reshape(H, W, channels), np.float32)
    if corpus:
        CORPUS.mkdir(parents=True, exist_ok=True)
        (CORPUS / f"{name}.tif").write_bytes(data)


TILE = (16, 32)
add("tiles_none", tile=TILE, corpus=True)
add("tiles_lzw_rgb", 3, tile=TILE, compression="lzw", predictor=2, corpus=True)
add("tiles_deflate_16", dtype=np.uint16, tile=TILE, compression="deflate", predictor=2)
add("tiles_jpeg", tile=(32, 32), compression="jpeg", compressionargs={"level": 95}, corpus=True)
add("tiles_jpeg_ycbcr", 3, tile=(32, 32), compression="jpeg", photometric="ycbcr", subsampling=(1, 1),
    compressionargs={"level": 95, "outcolorspace": "ycbcr"}, corpus=True)
add("tiles_planes", 3, tile=TILE, compression="deflate", planarconfig="separate")
add("tiles_float", 2, dtype=np.float32, tile=TILE, compression="deflate", predictor=3, planarconfig="contig",
    extrasamples=["unspecified"])
add("big_tiles", 3, tile=TILE, bigtiff=True, compression="deflate")
add("big_endian_16", dtype=np.uint16, tile=TILE, byteorder=">", bigtiff=True)
add("strips_none", rowsperstrip=8)
add("strips_lzw_16", 3, dtype=np.uint16, rowsperstrip=5, compression="lzw", corpus=True)
add("strips_deflate", 3, rowsperstrip=H, compression="deflate", corpus=True)
add("strips_packbits", rowsperstrip=8, compression="packbits", corpus=True)
add("strips_jpeg", 3, rowsperstrip=16, compression="jpeg", compressionargs={"level": 95})
add("strips_planes_int16", 2, dtype=np.int16, rowsperstrip=7, planarconfig="separate", compression="deflate",
    byteorder=">", extrasamples=["unspecified"])
save_file(tensors, ROOT / "tests" / "golden" / "data_tiff.safetensors")
print(len(tensors) // 2, "files", sum(t.nbytes for t in tensors.values()), "bytes")
