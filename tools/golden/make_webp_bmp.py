"""Golden files of WebP and BMP images: what Pillow reads out of them.

Usage: python tools/golden/make_webp_bmp.py   (Pillow 13.0.0, numpy 2.4.6, safetensors 0.8.0)
Writes tests/golden/data_webp_bmp.safetensors. Keys: "file.NAME" the bytes of a file; "pixels.NAME" [H, W, C] what
Pillow makes of it after exif_transpose, C 1 where all colours are gray. And starting inputs of
tests/fuzz/corpus/{webp,bmp}_fuzz/.
"""
import io
import pathlib
import struct

import numpy as np
from PIL import Image, ImageOps
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
rng = np.random.default_rng(3)
tensors = {}


def keep(name, data, corpus=False):
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    gray = image.mode in ("1", "L") and name.startswith("bmp")
    pixels = np.asarray(image.convert("L" if gray else "RGB"))
    tensors[f"file.{name}"] = np.frombuffer(data, np.uint8).copy()
    tensors[f"pixels.{name}"] = np.ascontiguousarray(pixels.reshape(*pixels.shape[:2], -1))
    if corpus:
        folder = ROOT / "tests" / "fuzz" / "corpus" / f"{name.split('_')[0]}_fuzz"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def saved(image, kind, **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


grid = np.add.outer(np.arange(13) * 9, np.arange(17) * 5)
rgb = np.stack([grid % 256, (grid * 3) % 256, 255 - grid % 256], -1).astype(np.uint8)
color = Image.fromarray(rgb)
alpha = Image.fromarray(np.dstack([rgb, (grid * 7 % 256).astype(np.uint8)]))

keep("webp_lossy", saved(color, "WEBP", quality=70), True)
keep("webp_lossless", saved(color, "WEBP", lossless=True), True)
keep("webp_alpha_lossy", saved(alpha, "WEBP", quality=70), True)
keep("webp_alpha_lossless", saved(alpha, "WEBP", lossless=True, exact=True))
for orientation in (1, 3, 6, 8):
    exif = Image.Exif()
    exif[0x0112] = orientation
    keep(f"webp_exif_{orientation}", saved(color, "WEBP", lossless=True, exif=exif), orientation == 6)
frames = [alpha, Image.fromarray(np.roll(np.asarray(alpha), 3, 0))]
keep("webp_animation", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True), True)

keep("bmp_1", saved(Image.fromarray(grid % 3 == 0), "BMP"), True)
keep("bmp_gray", saved(Image.fromarray(grid.astype(np.uint8)), "BMP"))
keep("bmp_palette", saved(color.quantize(50), "BMP"), True)
keep("bmp_24", saved(color, "BMP"), True)
keep("bmp_32", saved(alpha, "BMP"))


def bmp(width, height, bits, compression, data, palette=b"", header=40, masks=b"", used=0):
    info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(data), 2835, 2835, used, 0) + masks
    info += b"\0" * (header - 40 - len(masks)) if header > 40 else b""
    offset = 14 + len(info) + len(palette)
    return struct.pack("<2sIHHI", b"BM", offset + len(data), 0, 0, offset) + info + palette + data


colors = b"".join(struct.pack("<4B", *rng.integers(0, 256, 3), 0) for _ in range(256))
rows = [rng.integers(0, 256, 8, np.uint8).tobytes() for _ in range(5)]
keep("bmp_top_down", bmp(6, -5, 8, 0, b"".join(rows), colors))
keep("bmp_4", bmp(7, 5, 4, 0, b"".join(row[:4] for row in rows), colors[:64], used=16), True)
words = rng.integers(0, 65536, (4, 6), np.uint16)
keep("bmp_555", bmp(6, 4, 16, 0, (words & 0x7FFF).astype("<u2").tobytes()))
keep("bmp_565", bmp(6, 4, 16, 3, words.astype("<u2").tobytes(), masks=struct.pack("<III", 0xF800, 0x07E0, 0x001F)), True)
wide = rng.integers(0, 2**32, (4, 6), np.uint32).astype("<u4").tobytes()
for header in (56, 108, 124):
    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    keep(f"bmp_fields_{header}", bmp(6, 4, 32, 3, wide, header=header, masks=masks), header == 124)
runs = bytes([3, 7, 0, 4, 1, 2, 3, 4, 0, 0,  2, 9, 0, 3, 5, 6, 7, 0, 0, 0,  0, 2, 2, 1, 4, 30, 0, 0, 0, 1])
keep("bmp_rle8", bmp(8, 4, 8, 1, runs, colors), True)
runs = bytes([5, 0x12, 0, 3, 0x34, 0x50, 0, 0,  0, 5, 0x12, 0x34, 0x50, 0, 0, 0,  8, 0x0F, 0, 0,  6, 0x21, 0, 0,
              0, 1])
keep("bmp_rle4", bmp(8, 4, 4, 2, runs, colors[:64]), True)
core = struct.pack("<IHHHH", 12, 6, 5, 1, 8) + b"".join(colors[4 * i:4 * i + 3] for i in range(256))
keep("bmp_core", struct.pack("<2sIHHI", b"BM", 14 + len(core) + 40, 0, 0, 14 + len(core)) + core + b"".join(rows), True)
save_file(tensors, ROOT / "tests" / "golden" / "data_webp_bmp.safetensors")
