"""Golden values for the augmentations of data/: what Pillow, torchvision and timm make of small images.

Usage: PYTHONPATH=<folder with pillow 12.0.0> python tools/golden/make_augment.py
(Pillow 12.0.0, as timm's RandAugment wants one below 13; timm 1.0.31, torchvision 0.26.0, scipy 1.16, safetensors)
Writes tests/golden/data_augment.safetensors. Keys: "image.*" inputs [H, W, C] uint8; "args.*" arguments of an
operation, in the order of the results' last number; the rest are results, named after the function.
"""

import pathlib
import random
from unittest import mock

import numpy as np
import PIL
import scipy.stats
import timm
import torch
import torchvision
from PIL import Image, ImageFilter
from safetensors.numpy import save_file
from timm.data import auto_augment as aa
from timm.data import distributed_sampler, mixup, random_erasing, transforms, transforms_factory
from torchvision.transforms import InterpolationMode, autoaugment
from torchvision.transforms import functional as F

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data_augment.safetensors"
HEIGHT, WIDTH = 17, 26
FILL = (128, 64, 200)
NAMES = list(aa.NAME_TO_OP)
FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}

tensors = {}


def add(key, array):
    array = np.ascontiguousarray(array)
    if array.dtype == np.uint8 and array.ndim == 2:
        array = array[:, :, None]
    tensors[key] = array


def make_image(height, width, channels, seed):
    """Slopes, a disc, hard edges and noise, with less than the full range of values."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for c in range(channels):
        plane = 20 + 190 * (x * (c + 1) % width) / width
        plane = np.where((y - height / 2) ** 2 + (x - width / 3) ** 2 < (height / 4) ** 2, 230 - 70 * c, plane)
        plane = np.where(y < height // 6, 30 if c % 2 else 240, plane)
        planes.append(plane + rng.normal(0, 8, plane.shape))
    return np.clip(np.stack(planes, -1), 10 if channels == 3 else 0, 245).astype(np.uint8)


def to_pil(array):
    return Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)


arrays = {"rgb": make_image(HEIGHT, WIDTH, 3, 0), "gray": make_image(HEIGHT, WIDTH, 1, 1)}
images = {name: to_pil(array) for name, array in arrays.items()}
for name, array in arrays.items():
    add(f"image.{name}", array)

# The pixels of every operation.
GEOMETRY = {
    "Rotate": [30.0, -13.5, 90.0],
    "ShearX": [0.3, -0.135],
    "ShearY": [0.27, -0.3],
    "TranslateX": [7.0, -3.3],
    "TranslateXRel": [0.405, -0.117],
    "TranslateYRel": [0.45, -0.2],
}
VALUES = {
    "AutoContrast": [0],
    "Equalize": [0],
    "Invert": [0],
    "Posterize": [0, 3, 8],
    "Solarize": [0, 77, 256],
    "SolarizeAdd": [33, 110],
    "Color": [0.0, 0.82, 1.0, 1.9],
    "Contrast": [0.1, 1.9],
    "Brightness": [0.73, 1.9],
    "Sharpness": [0.1, 0.73, 1.9],
    "Desaturate": [0.9],
    "GaussianBlur": [0.1, 2.0, 6.5],
}
for op, args in {**GEOMETRY, **VALUES}.items():
    add(f"args.{op}", np.array(args, np.float64))
    for name, image in images.items():
        fill = FILL if name == "rgb" else FILL[0]
        for i, arg in enumerate(args):
            for filter_name, filter_mode in FILTERS.items() if op in GEOMETRY else [("none", None)]:
                given = [] if aa.LEVEL_TO_ARG[op] is None else [arg]
                result = aa.NAME_TO_OP[op](image, *given, fillcolor=fill, resample=filter_mode)
                add(f"op.{name}.{op}.{filter_name}.{i}", np.asarray(result))

# Levels: [level, direction] of every operation.
levels = np.array([0, 0.3, 1, 2.5, 4, 5, 7, 9, 9.7, 10, 15, 27.3], np.float64)
add("levels", levels)
hparams = {"translate_const": 100, "translate_pct": 0.45}
for op, function in aa.LEVEL_TO_ARG.items():
    if function is None:
        continue
    table = np.zeros((len(levels), 2))
    for i, level in enumerate(levels):
        for sign, draw in enumerate([0.1, 0.9]):  # timm turns the sign above 0.5
            with mock.patch.object(random, "random", lambda draw=draw: draw):
                table[i, sign] = function(float(level), hparams)[0]
    add(f"level.{op}", table)
add("names", np.frombuffer(" ".join(NAMES).encode(), np.uint8))


def op_row(op):
    return [NAMES.index(op.name), op.prob, op.magnitude]


# Policies: [sub-policy, operation, (index in names, probability, magnitude)], and choices with their weights.
for policy in ["original", "originalr", "v0", "v0r", "3a"]:
    made = aa.auto_augment_policy(policy, aa._HPARAMS_DEFAULT)
    add(f"policy.{policy}", np.array([[op_row(op) for op in sub] for sub in made], np.float64))
for text in ["rand-m9-mstd0.5-inc1", "rand-m7-n3", "rand-m10-n1-mmax20-p0.8", "rand-mstd101-tweights", "rand-t3a",
             "rand-m6-t3aw-n2"]:
    made = aa.rand_augment_transform(text)
    add(f"rand.{text}", np.array([op_row(op) for op in made.ops], np.float64))
    std, largest = made.ops[0].magnitude_std, made.ops[0].magnitude_max or 10
    add(f"rand_options.{text}", np.array([made.num_layers, std, largest], np.float64))
    add(f"rand_weights.{text}", np.array([] if made.choice_weights is None else made.choice_weights, np.float64))
for text in ["augmix-m3-w3", "augmix-m5-w4-d2-mstd1-a0.5-b1"]:
    made = aa.augment_and_mix_transform(text)
    options = [made.alpha, made.width, made.depth, made.blended, made.ops[0].magnitude_std, made.ops[0].magnitude]
    add(f"augmix.{text}", np.array(options, np.float64))
    add(f"augmix_ops.{text}", np.array([NAMES.index(op.name) for op in made.ops], np.float64))

# torchvision's RandAugment: every operation at magnitude 9 of 31, with either sign.
space = autoaugment.RandAugment()._augmentation_space(31, (HEIGHT, WIDTH))
for index, (op, (magnitudes, is_signed)) in enumerate(space.items()):
    magnitude = float(magnitudes[9].item()) if magnitudes.ndim > 0 else 0.0
    add(f"tv_magnitude.{index}", np.array([magnitude, is_signed], np.float64))
    for sign in [1, -1] if is_signed else [1]:
        for mode in ["nearest", "bilinear"] if op in ("Rotate", "ShearY", "TranslateX") else ["nearest"]:
            result = autoaugment._apply_op(images["rgb"], op, sign * magnitude, InterpolationMode(mode), list(FILL))
            add(f"tv.{index}.{mode}.{'plus' if sign == 1 else 'minus'}", np.asarray(result))

# Colour, gray and blur of torchvision.
HUES = [-0.5, -0.1, 0.0, 0.03, 0.25, 0.5]
add("args.hue", np.array(HUES, np.float64))
for i, hue in enumerate(HUES):
    add(f"hue.rgb.{i}", np.asarray(F.adjust_hue(images["rgb"], hue)))
ramp = np.stack(np.meshgrid(np.arange(0, 256, 15), np.arange(0, 256, 15)), -1)
ramp = np.concatenate([ramp, (ramp.sum(-1, keepdims=True) * 7) % 256], -1).astype(np.uint8)  # [18, 18, 3]
add("image.ramp", ramp)
for i, hue in enumerate(HUES):
    add(f"hue.ramp.{i}", np.asarray(F.adjust_hue(to_pil(ramp), hue)))
jittered = F.adjust_brightness(F.adjust_saturation(images["rgb"], 0.7), 1.3)
add("jitter.2031", np.asarray(F.adjust_contrast(F.adjust_hue(jittered, 0.1), 1.2)))
add("grayscale", np.asarray(F.rgb_to_grayscale(images["rgb"], 3)))
for name, image in images.items():
    for size, sigma in [(23, 0.1), (23, 2.0), (5, 2.0)]:
        add(f"blur_kernel.{name}.{size}.{round(sigma * 10)}", np.asarray(F.gaussian_blur(image, [size, size], [sigma] * 2)))

# Crops that keep the aspect ratio. Sizes: height, width, target height, target width, longest, result.
rows = []
for height, width in [(375, 500), (500, 375), (23, 29), (100, 1000), (224, 224), (31, 17)]:
    for target in [(224, 224), (160, 192), (20, 20)]:
        for longest in [0.0, 1.0, 0.25]:
            size = transforms.ResizeKeepRatio.get_params(Image.new("L", (width, height)), target, longest)
            rows.append([height, width, *target, longest, *size])
add("keep_ratio_sizes", np.array(rows, np.float64))
random.seed(0)
probe = Image.new("L", (500, 375))
sizes = [transforms.ResizeKeepRatio.get_params(probe, (224, 224), 0.0, 0.5, (0.8, 1.0), True, 0.5, (0.9, 1 / 0.9))
         for _ in range(20000)]
add("rkrc_sizes", np.stack([np.mean(sizes, 0), np.std(sizes, 0)]))
WINDOWS = [(2, 3, 15, 20), (-4, -7, 31, 43), (-2, 5, 12, 30), (10, -3, 40, 9), (-20, -28, 45, 60)]
for name, image in images.items():
    fill = FILL if name == "rgb" else FILL[0]
    for mode in ["constant", "edge", "reflect"]:
        for top, left, height, width in WINDOWS if name == "gray" else WINDOWS[2:3]:
            result = transforms.crop_or_pad(image, top, left, height, width, fill=fill, padding_mode=mode)
            add(f"window.{name}.{mode}.{top}.{left}.{height}.{width}", np.asarray(result))
    for height, width in [(15, 40), (40, 15), (30, 32), (12, 13)]:
        result = transforms.center_crop_or_pad(image, [height, width], fill=fill)
        add(f"center.{name}.{height}x{width}", np.asarray(result))
for crop_mode in ["center", "squash", "border"]:
    for size in [(16, 16), (14, 18)]:
        crop = transforms_factory.transforms_imagenet_eval(
            size, crop_pct=0.875, crop_mode=crop_mode, interpolation="bicubic", normalize=False)
        add(f"eval.{crop_mode}.{size[0]}x{size[1]}", crop(images["rgb"]).numpy().transpose(1, 2, 0))

# Random erasing: mean and deviation of the erased share of an image, by the largest number of boxes.
for count in [1, 3]:
    random.seed(1)
    eraser = random_erasing.RandomErasing(probability=1.0, max_count=count, device="cpu")
    shares = []
    for _ in range(6000):
        image = torch.ones(1, 32, 40)
        shares.append(1 - eraser(image).mean().item())
    add(f"erased_share.{count}", np.array([np.mean(shares), np.std(shares)], np.float64))

# Mixup and cutmix with given draws.
BATCH, CLASSES = 6, 5
generator = torch.Generator().manual_seed(2)
x = torch.randn(BATCH, 2, 7, 9, generator=generator)
labels = torch.tensor([0, 3, 3, 1, 4, 2])
add("mix.x", x.numpy())
add("mix.labels", labels.numpy())
lams = np.array([0.37, 1.0, 0.81, 0.05, 0.5, 0.93], np.float32)
cutmixes = np.array([True, False, False, True, True, False])
for mode in ["batch", "pair", "elem"]:
    for is_cutmix in [False, True] if mode == "batch" else [None]:
        for correct in [True, False]:
            number = {"batch": 1, "pair": BATCH // 2, "elem": BATCH}[mode]
            mixer = mixup.Mixup(1.0, 1.0, mode=mode, correct_lam=correct, label_smoothing=0.1, num_classes=CLASSES)
            boxes = []

            def bbox(shape, lam, ratio_minmax=None, correct_lam=True, count=None):
                box, lam = original(shape, lam, ratio_minmax, correct_lam, count)
                boxes.append([*box, lam])
                return box, lam

            original = mixup.cutmix_bbox_and_lam
            np.random.seed(3)
            with mock.patch.object(mixup, "cutmix_bbox_and_lam", bbox), \
                    mock.patch.object(mixer, "_params_per_batch", lambda: (0.3, is_cutmix)), \
                    mock.patch.object(mixer, "_params_per_elem", lambda n: (lams[:n].copy(), cutmixes[:n])):
                mixed, target = mixer(x.clone(), labels)
            # Rows of the plan: lam before, is cutmix, top, bottom, left, right, lam after.
            plan = []
            for i in range(number):
                before = 0.3 if mode == "batch" else lams[i]
                cut = bool(is_cutmix) if mode == "batch" else bool(cutmixes[i])
                cut = cut and before != 1.0
                plan.append([before, cut, *(boxes.pop(0) if cut else [0, 0, 0, 0, before])])
            key = f"mix.{mode}.{ {None: 'both', False: 'mixup', True: 'cutmix'}[is_cutmix]}.{'correct' if correct else 'plain'}"
            add(f"{key}.plan", np.array(plan, np.float64))
            add(f"{key}.images", mixed.numpy())
            add(f"{key}.targets", target.numpy())
rows = []
for lam in [0.0, 0.1, 0.37, 0.5, 0.99]:
    for y, x_center in [(0, 0), (3, 8), (11, 5), (12, 16)]:
        draws = iter([y, x_center])
        with mock.patch.object(np.random, "randint", lambda *a, draws=draws, **k: next(draws)):
            rows.append([lam, y, x_center, *mixup.rand_bbox((3, 13, 17), lam)])
add("cutmix_boxes", np.array(rows, np.float64))
for alpha in [0.2, 0.8, 1.0, 4.0]:
    add(f"beta_deciles.{round(alpha * 10)}", scipy.stats.beta.ppf(np.arange(1, 10) / 10, alpha, alpha))

# Repeated augmentation: the samples of all ranks by place, in order.
for size, repeats, ranks in [(700, 3, 1), (700, 3, 2), (700, 2.5, 4), (100, 3, 2)]:
    parts = []
    for rank in range(ranks):
        sampler = distributed_sampler.RepeatAugSampler(
            range(size), num_replicas=ranks, rank=rank, shuffle=False, num_repeats=repeats)
        parts.append(list(sampler))
    places = np.stack(parts, 1).reshape(-1)
    add(f"repeated.{size}.{round(repeats * 10)}.{ranks}", places.astype(np.int64))

OUT.parent.mkdir(parents=True, exist_ok=True)
metadata = {"pillow": PIL.__version__, "timm": timm.__version__, "torchvision": torchvision.__version__,
            "maker": "tools/golden/make_augment.py"}
save_file(tensors, OUT, metadata)
print(f"{OUT.name}: {len(tensors)} tensors, {OUT.stat().st_size} bytes")
