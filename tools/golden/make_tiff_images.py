"""Golden files of TIFF images in data sets: what Pillow makes of small files of every kind that is read.

Usage: python tools/golden/make_tiff_images.py
(numpy 2.4.6, pillow 13.0.0, tifffile 2026.3.3, imagecodecs 2026.3.6, safetensors)
Writes tests/golden/data_tiff_images.safetensors. Keys: "file.NAME" the bytes of a file; "decoded.NAME" [H, W, 1 or 3] of
uint8: Pillow's pixels, as gray where the file is gray, else as RGB; of 16 bits, which Pillow cuts off in gray, the high byte
of tifffile's. And the starting inputs of the fuzz target, tests/fuzz/corpus/tiff_decode_fuzz/.
"""

import io
import pathlib

import numpy as np
import tifffile
from PIL import Image
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "tiff_decode_fuzz"
H, W = 21, 35
tensors = {}


def picture(channels, dtype=np.uint8):
    y, x = np.mgrid[:H, :W]
    planes = [(5 * y + (3 + 2 * c) * x) % 200 + 50 * ((y - 9) ** 2 + (x - 15 - c) ** 2 < 40) for c in range(channels)]
    values = np.stack(planes, -1) * (1 if dtype == np.uint8 else 257)
    return values.astype(dtype)[..., 0] if channels == 1 else values.astype(dtype)


def add(name, data, expected=None, corpus=False):
    if expected is None:
        image = Image.open(io.BytesIO(data))
        image.load()  # which turns it
        expected = np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
    tensors[f"file.{name}"] = np.frombuffer(data, np.uint8).copy()
    tensors[f"decoded.{name}"] = np.ascontiguousarray(expected if expected.ndim == 3 else expected[..., None])
    if corpus:
        CORPUS.mkdir(parents=True, exist_ok=True)
        (CORPUS / f"{name}.tif").write_bytes(data)


def written(values, *, bigtiff=False, byteorder="<", **options):
    file = io.BytesIO()
    with tifffile.TiffWriter(file, bigtiff=bigtiff, byteorder=byteorder) as writer:
        writer.write(values, metadata=None, **options)
    return file.getvalue()


def saved(image, **options):
    file = io.BytesIO()
    image.save(file, "TIFF", **options)
    return file.getvalue()


gray, rgb, rgba = picture(1), picture(3), picture(4)
gray16, rgb16 = picture(1, np.uint16), picture(3, np.uint16)
TILE = (16, 16)
add("gray", written(gray, photometric="minisblack"), corpus=True)
add("gray_white", written(gray, photometric="miniswhite", rowsperstrip=4))
add("gray_16", written(gray16, photometric="minisblack", compression="deflate", predictor=2), (gray16 >> 8).astype(np.uint8))
add("gray_16_big_endian", written(gray16, photometric="minisblack", byteorder=">", bigtiff=True), (gray16 >> 8).astype(np.uint8))
add("gray_alpha", written(np.stack([gray, 255 - gray], -1), photometric="minisblack", extrasamples=["unassalpha"]), gray)
for bits in (2, 4):
    values = (gray // (256 >> bits)).astype(np.uint8)
    add(f"gray_{bits}", written(values, photometric="minisblack", bitspersample=bits),
        (values * (255 // ((1 << bits) - 1))).astype(np.uint8), corpus=bits == 4)
bilevel = Image.fromarray(gray).convert("1")
for name in ("raw", "group3", "group4", "packbits"):
    add(f"bilevel_{name}", saved(bilevel, compression=name), corpus=name == "group4")
palette = Image.fromarray(rgb).quantize(40)
add("palette", saved(palette, compression="packbits"), corpus=True)
add("palette_tiles", written(np.asarray(palette), photometric="palette", tile=TILE,
                             colormap=np.random.default_rng(1).integers(0, 65536, (3, 256)).astype(np.uint16)))
add("rgb_none", written(rgb, photometric="rgb", rowsperstrip=5))
add("rgb_lzw_tiles", written(rgb, photometric="rgb", tile=TILE, compression="lzw", predictor=2), corpus=True)
add("rgb_planes", written(np.moveaxis(rgb, -1, 0), photometric="rgb", planarconfig="separate", compression="deflate",
                          rowsperstrip=8), corpus=True)
add("rgb_16", written(rgb16, photometric="rgb", byteorder=">", tile=TILE, compression="deflate"), (rgb16 >> 8).astype(np.uint8))
add("rgb_planes_16_tiles", written(np.moveaxis(rgb16, -1, 0), photometric="rgb", planarconfig="separate", tile=TILE),
    (rgb16 >> 8).astype(np.uint8))
add("rgba", written(rgba, photometric="rgb", extrasamples=["unassalpha"]), rgb)
alpha = rgba[..., 3:].astype(np.uint16)
add("rgba_premultiplied", written(np.concatenate([(rgba[..., :3] * alpha // 255).astype(np.uint8), rgba[..., 3:]], -1),
                                  photometric="rgb", extrasamples=["assocalpha"]))
add("rgbx", written(rgba, photometric="rgb", extrasamples=["unspecified"]))
add("cmyk", saved(Image.fromarray(rgba, "CMYK"), compression="tiff_lzw"))
add("jpeg_gray", written(gray, photometric="minisblack", compression="jpeg", compressionargs={"level": 90}, rowsperstrip=16))
add("jpeg_ycbcr", saved(Image.fromarray(rgb), compression="jpeg", quality=90), corpus=True)
add("jpeg_rgb_tiles", written(rgb, photometric="rgb", compression="jpeg", tile=TILE, compressionargs={"level": 90}))
for name in ("zstd", "lzma"):
    add(f"rgb_{name}", written(rgb, photometric="rgb", compression=name))
add("rgb_webp", written(rgb, photometric="rgb", compression="webp", compressionargs={"level": 0, "lossless": True}), rgb)
add("ycbcr_plain", written(np.asarray(Image.fromarray(rgb).convert("YCbCr")), photometric="ycbcr", subsampling=(1, 1)), corpus=True)
for turn in range(1, 9):
    add(f"orientation_{turn}", written(rgb, photometric="rgb", compression="deflate", extratags=[(274, "H", 1, turn, True)]))
file = io.BytesIO()
with tifffile.TiffWriter(file) as writer:  # of two pages the first
    writer.write(gray, photometric="minisblack", metadata=None)
    writer.write(255 - gray, photometric="minisblack", metadata=None)
add("pages", file.getvalue(), gray)
save_file(tensors, ROOT / "tests" / "golden" / "data_tiff_images.safetensors")
print(len(tensors) // 2, "files", sum(t.nbytes for t in tensors.values()), "bytes")
