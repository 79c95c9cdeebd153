"""Golden files of whole-slide images: pyramids as scanners write them, and what OpenSlide and scikit-image make of them.

Usage: python tools/golden/make_slides.py
(numpy 2.4.6, tifffile 2026.3.3, imagecodecs 2026.3.6, openslide-python 1.4.7 with openslide-bin 4.0.1.2,
scikit-image 0.26.0, safetensors)
Writes tests/golden/data_slides.safetensors. Keys: "file.NAME" the bytes of a slide; "level.NAME.N" a level of it [H, W, 3]
of uint8 as OpenSlide reads it, over white; "mpp.NAME" its microns a pixel (float64). Of the slide aperio also
"saturation" [H, W] of its lowest level (uint8), "threshold" of skimage.filters.threshold_otsu of that, and "mask" of the
tissue, at level 0: "file.mask" a TIFF with class 1 in the disk.
"""

import io
import pathlib
import tempfile

import numpy as np
import openslide
import tifffile
from safetensors.numpy import save_file
from skimage.filters import threshold_otsu

ROOT = pathlib.Path(__file__).resolve().parents[2]
tensors = {}


def picture(height, width):
    """Pink tissue in a disk on bright glass."""
    y, x = np.mgrid[:height, :width]
    rgb = np.stack([238 + (x + y) % 5, 236 + x % 4, 240 + y % 3], -1)
    disk = (y - 0.45 * height) ** 2 + (x - 0.4 * width) ** 2 < (0.3 * height) ** 2
    tissue = np.stack([150 + x // 2 % 64, 40 + y // 2 % 96, 140 + (x + y) // 2 % 50], -1)
    return np.where(disk[..., None], tissue, rgb).astype(np.uint8), disk


def shrunk(image, height, width):
    """Each pixel the mean of 2 x 2."""
    image = image[: 2 * height, : 2 * width].astype(np.uint16)
    return ((image[::2, ::2] + image[1::2, ::2] + image[::2, 1::2] + image[1::2, 1::2] + 2) // 4).astype(np.uint8)


def add(name, image, levels, description=None, **options):
    file = io.BytesIO()
    with tifffile.TiffWriter(file) as writer:
        for level in range(levels):
            writer.write(image, tile=(64, 64), photometric="rgb", metadata=None, subfiletype=min(level, 1),
                         description=description if level == 0 else None, **options)
            image = shrunk(image, image.shape[0] // 2, image.shape[1] // 2)
    tensors[f"file.{name}"] = np.frombuffer(file.getvalue(), np.uint8).copy()
    with tempfile.NamedTemporaryFile(suffix=".tif") as path:
        path.write(file.getvalue())
        path.flush()
        slide = openslide.OpenSlide(path.name)
        for level, (width, height) in enumerate(slide.level_dimensions):
            argb = np.asarray(slide.read_region((0, 0), level, (width, height))).astype(np.uint16)
            alpha = argb[..., 3:]
            rgb = (argb[..., :3] * alpha + 255 * (255 - alpha) + 127) // 255
            tensors[f"level.{name}.{level}"] = rgb.astype(np.uint8)
        if openslide.PROPERTY_NAME_MPP_X in slide.properties:
            tensors[f"mpp.{name}"] = np.array([float(slide.properties[openslide.PROPERTY_NAME_MPP_X])])
        print(name, slide.level_dimensions, slide.level_downsamples, slide.properties["openslide.vendor"])


image, disk = picture(144, 208)
aperio = "Aperio Image Library v10.0.50\r\n208x144 [0,0 208x144] (64x64) JPEG/RGB Q=90|AppMag = 20|MPP = 0.4990"
add("aperio", image, 3, aperio, compression="deflate")
add("plain", picture(80, 96)[0], 2, compression="lzw", resolution=(20000, 20000), resolutionunit=3)
add("jpeg", picture(66, 80)[0], 1, compression="jpeg", compressionargs={"level": 90})
add("odd", picture(71, 103)[0], 2, compression="deflate")  # levels whose pixels lie between those of level 0
lowest = tensors["level.aperio.2"].astype(np.int32)
most, least = lowest.max(-1), lowest.min(-1)
saturation = (np.where(most > 0, (most - least) * 255 // np.maximum(most, 1), 0)).astype(np.uint8)
tensors["saturation"] = saturation
tensors["threshold"] = np.array([threshold_otsu(saturation)], np.float64)
file = io.BytesIO()
with tifffile.TiffWriter(file) as writer:
    writer.write(disk.astype(np.uint8), tile=(64, 64), photometric="minisblack", compression="deflate", metadata=None)
tensors["file.mask"] = np.frombuffer(file.getvalue(), np.uint8).copy()
tensors["mask"] = disk.astype(np.uint8)
for name in [key for key in tensors if key.startswith("level.odd")]:
    tensors.pop(name)  # of such levels OpenSlide 3 and 4 interpolate apart
save_file(tensors, ROOT / "tests" / "golden" / "data_slides.safetensors")
print(len(tensors), "arrays", sum(t.nbytes for t in tensors.values()), "bytes")
