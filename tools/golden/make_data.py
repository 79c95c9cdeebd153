"""Golden values for data/: what Pillow and torchvision make of small images.

Usage: python tools/golden/make_data.py   (Pillow 13.0.0, torchvision 0.26.0, safetensors)
Writes tests/golden/data.safetensors. Keys: "image.*" inputs [H, W, C] uint8; "file.*" encoded files [bytes];
the rest are results, named after the function and its arguments.
"""

import io
import pathlib

import numpy as np
import PIL
import torch
import torchvision
from PIL import Image, ImageOps
from safetensors.numpy import save_file
from torchvision.transforms import InterpolationMode, RandomResizedCrop
from torchvision.transforms import functional as F

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data.safetensors"
FILTERS = {
    "nearest": InterpolationMode.NEAREST,
    "bilinear": InterpolationMode.BILINEAR,
    "bicubic": InterpolationMode.BICUBIC,
}
SIZES = [(20, 20), (80, 64), (37, 20), (90, 53), (7, 100), (1, 1), (36, 52), (20, 48)]

tensors = {}


def add(key, array):
    array = np.ascontiguousarray(array)
    if array.dtype == np.uint8 and array.ndim == 2:
        array = array[:, :, None]
    tensors[key] = array


def make_image(height, width, channels, seed):
    """Slopes, a disc, hard edges and noise: something for every filter to overshoot on."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for c in range(channels):
        plane = 255 * (x * (c + 1) % width) / width
        plane = np.where((y - height / 2) ** 2 + (x - width / 3) ** 2 < (height / 4) ** 2, 255 - 90 * c, plane)
        plane = np.where(y < height // 6, 0 if c % 2 else 255, plane)
        planes.append(plane + rng.normal(0, 12, plane.shape))
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def to_pil(array):
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


def encoded(image, **options):
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def add_file(key, data, expected):
    add(f"file.{key}", np.frombuffer(data, np.uint8))
    add(f"decoded.{key}", np.asarray(expected))


rgb = make_image(37, 53, 3, 0)
gray = make_image(37, 53, 1, 1)
add("image.rgb", rgb)
add("image.gray", gray)
images = {"rgb": to_pil(rgb), "gray": to_pil(gray)}

for name, image in images.items():
    for filter_name, filter_mode in FILTERS.items():
        for height, width in SIZES:
            resized = F.resize(image, [height, width], filter_mode)
            add(f"resize.{name}.{filter_name}.{height}x{width}", np.asarray(resized))
        add(f"resize_shorter.{name}.{filter_name}.24", np.asarray(F.resize(image, 24, filter_mode)))
        crop = F.resized_crop(image, 5, 9, 23, 31, [16, 18], filter_mode)
        add(f"resized_crop.{name}.{filter_name}.5.9.23x31.16x18", np.asarray(crop))
    for height, width in [(20, 20), (21, 30), (36, 52), (50, 20), (44, 60)]:
        add(f"center_crop.{name}.{height}x{width}", np.asarray(F.center_crop(image, [height, width])))
    for mode in ["constant", "edge", "reflect"]:
        add(f"pad.{name}.{mode}.3.1.4.2", np.asarray(F.pad(image, [3, 1, 4, 2], fill=7, padding_mode=mode)))

add("to_gray", np.asarray(images["rgb"].convert("L")))
normalized = F.normalize(F.to_tensor(images["rgb"]), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
add("normalize.imagenet", normalized.numpy())

# Mean and deviation of (top, left, height, width, height * width, log(width / height)) over many boxes.
torch.manual_seed(0)
for height, width in [(100, 160), (300, 50)]:
    boxes = []
    probe = torch.empty(1, height, width)
    for _ in range(40000):
        top, left, box_height, box_width = RandomResizedCrop.get_params(probe, [0.08, 1.0], [3 / 4, 4 / 3])
        boxes.append([top, left, box_height, box_width, box_height * box_width, np.log(box_width / box_height)])
    boxes = np.array(boxes, np.float64)
    add(f"crop_boxes.{height}x{width}", np.stack([boxes.mean(0), boxes.std(0)]))
# Ten tries that cannot succeed: the centred box.
for height, width in [(10, 1000), (1000, 10), (7, 7)]:
    box = RandomResizedCrop.get_params(torch.empty(1, height, width), [2.0, 2.0], [3 / 4, 4 / 3])
    add(f"crop_fallback.{height}x{width}", np.array(box, np.int64))

for key, options in {
    "jpeg_420": {"quality": 90},
    "jpeg_444": {"quality": 95, "subsampling": 0},
    "jpeg_422": {"quality": 80, "subsampling": 1},
    "jpeg_progressive": {"quality": 85, "progressive": True},
}.items():
    data = encoded(images["rgb"], format="JPEG", **options)
    add_file(key, data, Image.open(io.BytesIO(data)).convert("RGB"))
data = encoded(images["gray"], format="JPEG", quality=90)
add_file("jpeg_gray", data, Image.open(io.BytesIO(data)))
data = encoded(images["rgb"].convert("CMYK"), format="JPEG", quality=95)
add_file("jpeg_cmyk", data, Image.open(io.BytesIO(data)).convert("RGB"))
for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "camera"
    data = encoded(images["rgb"], format="JPEG", quality=90, exif=exif)
    add_file(f"jpeg_exif_{orientation}", data, ImageOps.exif_transpose(Image.open(io.BytesIO(data))))

rgba = np.concatenate([rgb, gray], axis=2)
add_file("png_rgb", encoded(images["rgb"], format="PNG"), rgb)
add_file("png_rgba", encoded(Image.fromarray(rgba), format="PNG"), rgb)
add_file("png_gray", encoded(images["gray"], format="PNG"), gray)
add_file("png_gray_alpha", encoded(Image.fromarray(rgba[:, :, 2:]), format="PNG"), rgba[:, :, 2])
deep = gray[:, :, 0].astype(np.uint16) * 256 + 131
add_file("png_gray16", encoded(Image.fromarray(deep), format="PNG"), gray)
palette = images["rgb"].quantize(17)
add_file("png_palette", encoded(palette, format="PNG"), palette.convert("RGB"))
bits = images["gray"].convert("1")
add_file("png_bits", encoded(bits, format="PNG"), bits.convert("L"))
exif = Image.Exif()
exif[0x0112] = 6
data = encoded(images["rgb"], format="PNG", exif=exif)
add_file("png_exif_6", data, ImageOps.exif_transpose(Image.open(io.BytesIO(data))))

OUT.parent.mkdir(parents=True, exist_ok=True)
metadata = {"pillow": PIL.__version__, "torchvision": torchvision.__version__, "maker": "tools/golden/make_data.py"}
save_file(tensors, OUT, metadata)
print(f"{OUT.name}: {len(tensors)} tensors, {OUT.stat().st_size} bytes")
