"""Golden values for data/transforms/volume_*: what MONAI makes of small volumes, given its random parameters.

Usage: python tools/golden/make_volume_transforms.py   (monai 1.5.1, torch 2.11.0, numpy 2.4.6, safetensors)
Writes tests/golden/data_volume_transforms.safetensors. Keys: "in.*" inputs; the rest are results, named after the
transform and its arguments; "affine.N.params" is rotate (3), shear (6), translate (3), scale (3); masks are int8.
"""

import pathlib
import warnings

warnings.filterwarnings("ignore")

import monai
import numpy as np
import torch
from monai.data import MetaTensor
from monai.transforms import (AffineGrid, CenterSpatialCrop, CropForeground, Flip, GaussianSmooth, NormalizeIntensity,
                              Resample, Resize, Rotate90, ScaleIntensity, ScaleIntensityRange, ShiftIntensity, Spacing,
                              SpatialCrop, SpatialPad)
from monai.transforms.utils import generate_pos_neg_label_crop_centers, map_binary_to_indices
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data_volume_transforms.safetensors"
SIZE = (10, 11, 7)
tensors = {}


def add(key, array):
    tensors[key] = np.ascontiguousarray(np.asarray(torch.as_tensor(array)))


def add_mask(key, array):
    add(key, torch.as_tensor(array)[0].round().to(torch.int8))


def make_volume(size, channels, seed):
    """Slopes, a ball, zeros around it and noise."""
    rng = np.random.default_rng(seed)
    grid = np.meshgrid(*[np.linspace(-1, 1, side) if side > 1 else np.zeros(1) for side in size], indexing="ij")
    radius = np.sqrt(sum(axis**2 for axis in grid))
    planes = []
    for channel in range(channels):
        plane = 40 * grid[channel % 3] + np.where(radius < 0.6, 300 - 90 * channel, 20)
        plane = plane + rng.normal(0, 15, size)
        planes.append(np.where(radius < 1.2, plane, 0))
    return torch.from_numpy(np.stack(planes).astype(np.float32))


def make_mask(size, seed):
    rng = np.random.default_rng(seed)
    grid = np.meshgrid(*[np.linspace(-1, 1, side) if side > 1 else np.zeros(1) for side in size], indexing="ij")
    radius = np.sqrt(sum((axis - 0.2)**2 for axis in grid))
    mask = np.where(radius < 0.4, 2, np.where(radius < 0.7, 1, 0))
    return torch.from_numpy(np.where(rng.random(size) < 0.03, 3, mask)[None].astype(np.float32))


def name(values):
    return "x".join(str(value) for value in values)


one = make_volume(SIZE, 1, 0)
two = make_volume(SIZE, 2, 1)
mask = make_mask(SIZE, 2)
flat = make_volume((13, 17), 1, 3)  # [1, H, W]
for key, value in {"one": one, "two": two}.items():
    add(f"in.{key}", value)
add("in.flat", flat[:, None])
add_mask("in.mask", mask)

# Index moves.
for mode in ["constant", "edge", "reflect", "wrap"]:
    extra = {"value": 7.5} if mode == "constant" else {}
    add(f"pad.symmetric.{mode}", SpatialPad((13, 9, 10), "symmetric", mode, **extra)(one))
add("pad.end.constant", SpatialPad((13, 9, 10), "end", "constant", value=7.5)(one))
add_mask("pad_mask.symmetric.constant", SpatialPad((13, 9, 10), "symmetric", "constant", value=0)(mask))
for size in [(6, 20, 5), (5, 4, 8)]:
    add(f"center_crop.{name(size)}", CenterSpatialCrop(size)(one))
for axes in [(0,), (1,), (2,), (0, 2)]:
    add(f"flip.{name(axes)}", Flip(axes)(one))
for k, axes in [(1, (0, 1)), (1, (1, 2)), (3, (0, 2)), (2, (1, 2)), (1, (2, 0))]:
    add(f"rotate90.{k}.{name(axes)}", Rotate90(k, axes)(one))
for margin, k, smaller in [(0, 1, 0), (2, 1, 0), (2, 1, 1), (1, 4, 0)]:
    crop = CropForeground(lambda x: x > 250, margin=margin, k_divisible=k, allow_smaller=bool(smaller))
    add(f"crop_foreground.{margin}.{k}.{smaller}", crop(one))


class GivenDraws:
    """Stands for numpy's RandomState: rand and randint return what they are told."""

    def __init__(self, rand, randint):
        self.rand, self.randint = (lambda: rand), (lambda count: randint % count)


# Rows: is foreground, k, start (3), of boxes of the size in the name.
for size in [(6, 5, 4), (10, 11, 7), (3, 11, 5)]:
    for with_image in [0, 1]:
        foreground, background = map_binary_to_indices(mask, one if with_image else None, 100.0)
        rows = [[len(foreground), len(background), 0, 0, 0]]
        for draw in range(0, 300, 7):
            is_foreground = draw % 2
            count = len(foreground) if is_foreground else len(background)
            center = generate_pos_neg_label_crop_centers(size, 1, 0.5, SIZE, foreground, background,
                                                         GivenDraws(0.2 if is_foreground else 0.9, draw))[0]
            slices = SpatialCrop(roi_center=center, roi_size=size).slices
            rows.append([is_foreground, draw % count] + [s.start for s in slices])
        add(f"pos_neg.{name(size)}.{with_image}", np.array(rows, np.int64))

# Affine: three sets of parameters, with the output sizes in the names.
AFFINE = [
    ([0.3, -0.2, 0.5], [0.0] * 6, [0.0] * 3, [1.0] * 3, (-1, -1, -1)),
    ([-0.7, 0.4, 0.1], [0.1, -0.05, 0.2, 0.0, -0.1, 0.15], [1.3, -2.1, 0.7], [0.8, 1.25, 1.1], (9, 14, 10)),
    ([0.0, 0.0, 0.0], [0.0] * 6, [4.3, -9.4, 12.2], [2.5, 0.5, -1.0], (7, 8, 9)),
]


def sample_affine(volume, params, size, mode, padding_mode):
    rotate, shear, translate, scale, _ = params
    grid, _ = AffineGrid(rotate, shear, translate, scale)(spatial_size=size)
    return Resample(mode, padding_mode)(volume, grid)


for i, params in enumerate(AFFINE):
    add(f"affine.{i}.params", np.array(sum(params[:4], []), np.float64))
    size = tuple(side if side > 0 else SIZE[axis] for axis, side in enumerate(params[4]))
    for padding_mode in ["zeros", "border", "reflection"]:
        values = two if i == 1 else one
        key = f"affine.{i}.{padding_mode}.{name(size)}"
        add(key, sample_affine(values, params, size, "bilinear", padding_mode))
        add_mask(f"affine_mask.{i}.{padding_mode}.{name(size)}",
                 sample_affine(mask, params, size, "nearest", padding_mode))
add("affine_nearest.1.zeros.9x14x10", sample_affine(one, AFFINE[1], (9, 14, 10), "nearest", "zeros"))
for padding_mode in ["zeros", "border", "reflection"]:
    grid, _ = AffineGrid(0.4, (0.1, -0.2), (1.5, -3.2), (0.9, 1.2))(spatial_size=(15, 12))
    add(f"affine_flat.{padding_mode}", Resample("bilinear", padding_mode)(flat, grid)[:, None])

# Resampling along the axes.
for size in [(7, 9, 13), (20, 11, 5), (5, 5, 4)]:
    for anti_aliasing in [0, 1]:
        if anti_aliasing and size == (7, 9, 13):
            continue
        add(f"resize.{name(size)}.{anti_aliasing}",
            Resize(size, mode="trilinear", align_corners=False, anti_aliasing=bool(anti_aliasing))(one))
    for mode in ["nearest", "nearest-exact"]:
        add_mask(f"resize_mask.{name(size)}.{mode}", Resize(size, mode=mode)(mask))
add("resize_flat.9x20", Resize((9, 20), mode="bilinear", align_corners=False)(flat)[:, None])
SPACING = (1.5, 0.8, 2.0)
for pixdim in [(1.03, 1.07, 1.13), (2.3, 0.8, 1.13), (3.1, 1.73, 2.87)]:
    for padding_mode in ["border", "zeros", "reflection"]:
        affine = np.diag([*SPACING, 1.0])
        volume = Spacing(pixdim, mode="bilinear", padding_mode=padding_mode)(MetaTensor(one.clone(), affine=affine))
        add(f"spacing.{name(pixdim)}.{padding_mode}", volume)
        if padding_mode == "border":
            add_mask(f"spacing_mask.{name(pixdim)}",
                     Spacing(pixdim, mode="nearest", padding_mode=padding_mode)(MetaTensor(mask.clone(), affine=affine)))

# Intensity.
add("shift.3.25", ShiftIntensity(3.25)(two))
add("multiply.0.13", ScaleIntensity(minv=None, maxv=None, factor=0.13)(two))
for sigma in [(0.25, 0.7, 1.5), (1.0, 0.3, 0.9)]:
    add(f"smooth.{name(sigma)}", GaussianSmooth(sigma)(two))
add("smooth_flat.1.2x0.6", GaussianSmooth((1.2, 0.6))(flat)[:, None])
for clip in [0, 1]:
    add(f"range.{clip}", ScaleIntensityRange(-20, 250, -1, 2, clip=bool(clip))(two))
for channel_wise in [0, 1]:
    add(f"scale.{channel_wise}", ScaleIntensity(-1, 3, channel_wise=bool(channel_wise))(two))
    for nonzero in [0, 1]:
        add(f"normalize.{channel_wise}.{nonzero}",
            NormalizeIntensity(channel_wise=bool(channel_wise), nonzero=bool(nonzero))(two.clone()))
add("scale_constant", ScaleIntensity(2, 3)(torch.full((1, 2, 3, 4), 5.0)))
add("normalize_constant", NormalizeIntensity()(torch.full((1, 2, 3, 4), 5.0)))
add("normalize_given", NormalizeIntensity(subtrahend=[10.0, 20.0], divisor=[3.0, 7.0], channel_wise=True,
                                          nonzero=True)(two.clone()))

OUT.parent.mkdir(parents=True, exist_ok=True)
metadata = {"monai": monai.__version__, "torch": torch.__version__, "maker": "tools/golden/make_volume_transforms.py"}
save_file(tensors, OUT, metadata)
print(f"{OUT.name}: {len(tensors)} tensors, {OUT.stat().st_size} bytes")
