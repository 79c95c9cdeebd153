"""Goldens for the segmentation losses, metrics and the sliding window, from MONAI (and UCF-VIT's DiceBLoss).

segmentation_losses: values and gradients in float64 of each case; segmentation_metrics: Dice, IoU and Hausdorff-95 of
each sample and class and their means, and scipy's distance transform; sliding_window: blended predictions.

Needs monai 1.6.0, torch 2.11.0, scipy, safetensors, and src/UCF_VIT/utils/metrics.py of irlyngaas/UCF-VIT c114eeb:

    python tools/golden/make_segmentation.py path/to/metrics.py
"""
import importlib.util
import itertools
import json
import pathlib
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss, MaskedDiceLoss
from monai.metrics import DiceMetric, HausdorffDistanceMetric, MeanIoU, compute_hausdorff_distance
from safetensors.torch import save_file
from scipy import ndimage

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"


def write(name, tensors, config):
    path = OUT / f"{name}.safetensors"
    import monai
    save_file({k: v.contiguous() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps(config),
                        "made_by": f"tools/golden/make_segmentation.py, monai {monai.__version__}, "
                                   f"torch {torch.__version__}"})
    assert path.stat().st_size < 300_000, (path, path.stat().st_size)
    print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def one_hot(labels, classes):
    return F.one_hot(labels, classes).movedim(-1, 1)


# --- losses ----------------------------------------------------------------------------------------------------------

MONAI_KEYS = ("include_background", "squared_pred", "smooth_nr", "smooth_dr", "batch")
LOSS_CASES = {
    "dice": dict(name="dice"),
    "dice_foreground": dict(name="dice", include_background=False),
    "dice_squared": dict(name="dice", squared_pred=True, smooth_nr=0.0, smooth_dr=1e-6),
    "dice_sigmoid": dict(name="dice", sigmoid=True, smooth_nr=0.5, smooth_dr=0.25),
    "dice_batch": dict(name="dice", batch=True, include_background=False),
    "dice_ce": dict(name="dice_ce"),
    "dice_ce_ucf": dict(name="dice_ce", squared_pred=True, smooth_nr=0.0, smooth_dr=1e-6),
    "dice_ce_weighted": dict(name="dice_ce", lambda_dice=0.3, lambda_ce=1.7, include_background=False),
    "dice_ce_sigmoid_batch": dict(name="dice_ce", sigmoid=True, batch=True, squared_pred=True),
    "dice_bce": dict(name="dice_bce", lambda_dice=0.7),
    "ce": dict(name="ce"),
    "ucf_dice_bce": dict(name="ucf_dice_bce"),
}


def monai_loss(case, logits, labels, ucf):
    options = {key: case[key] for key in MONAI_KEYS if key in case}
    # MONAI's own conversion (to_onehot_y) gives float32, which rounds the sums of squares.
    hot = one_hot(labels, logits.shape[1]).to(logits.dtype)
    activation = {"sigmoid": True} if case.get("sigmoid") or case["name"] == "dice_bce" else {"softmax": True}
    weights = {key: case[key] for key in ("lambda_dice", "lambda_ce") if key in case}
    name = case["name"]
    if name == "dice":
        return DiceLoss(**activation, **options)(logits, hot)
    if name == "dice_ce":
        return DiceCELoss(**activation, **options, **weights)(logits, hot)
    if name == "dice_bce":
        dice = DiceLoss(**activation, **options)(logits, hot)
        bce = torch.nn.BCEWithLogitsLoss()(logits, hot)
        return weights.get("lambda_dice", 1.0) * dice + weights.get("lambda_ce", 1.0) * bce
    if name == "ce":
        return F.cross_entropy(logits, labels)
    return ucf(logits, hot)


def make_losses(metrics_file):
    spec = importlib.util.spec_from_file_location("ucf_metrics", metrics_file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ucf = module.DiceBLoss()
    generator = torch.Generator().manual_seed(1)
    tensors, cases = {}, {}
    for shape in ([3, 4, 3, 4, 5], [2, 3, 6, 7]):
        form = f"{len(shape) - 2}d"
        logits = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, shape[1], [shape[0], *shape[2:]], generator=generator)
        labels[0][labels[0] == 1] = 2  # one sample lacks a class
        tensors[f"{form}/logits"], tensors[f"{form}/labels"] = logits, labels
        for name, case in LOSS_CASES.items():
            wanted = logits.clone().requires_grad_()
            loss = monai_loss(case, wanted, labels, ucf)
            loss.backward()
            cases[f"{form}_{name}"] = case
            tensors[f"loss/{form}_{name}"] = loss.detach().reshape([])
            tensors[f"gradient/{form}_{name}"] = wanted.grad
    make_ignored(tensors, generator)
    write("segmentation_losses", tensors, {"cases": cases})


def make_ignored(tensors, generator):
    """Voxels without a label: MONAI's masked Dice, and cross-entropy over the others, sample by sample."""
    logits = torch.randn([2, 3, 5, 6], generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.randint(-1, 3, [2, 5, 6], generator=generator)
    mask = (labels >= 0).unsqueeze(1).to(logits.dtype)
    target = labels.clamp_min(0)
    probabilities = logits.softmax(1)
    total = 0
    for b in range(2):
        hot = one_hot(target[b:b + 1], 3).to(logits.dtype)
        total = total + MaskedDiceLoss()(probabilities[b:b + 1], hot, mask[b:b + 1])
        total = total + F.cross_entropy(logits[b:b + 1], labels[b:b + 1], ignore_index=-1)
    loss = total / 2
    loss.backward()
    tensors.update({"ignored/logits": logits.detach(), "ignored/labels": labels, "ignored/loss": loss.detach(),
                    "ignored/gradient": logits.grad})


# --- metrics ---------------------------------------------------------------------------------------------------------

def blobs(generator, shape, classes):
    """A class map of smooth regions, and another one that is the same here and there."""
    noise = generator.normal(size=(2, classes, *shape))
    smooth = np.stack([[ndimage.gaussian_filter(channel, 1.2) for channel in one] for one in noise])
    return smooth[0].argmax(0), (smooth[0] + 0.7 * smooth[1]).argmax(0)


def make_metrics():
    generator = np.random.default_rng(2)
    tensors = {}
    for form, shape, spacing in (("3d", (7, 9, 8), (2.5, 0.8, 1.3)), ("2d", (13, 11), (0.7, 2.0))):
        pairs = [blobs(generator, shape, 4) for _ in range(4)]
        labels = torch.tensor(np.stack([p[0] for p in pairs]))
        predicted = torch.tensor(np.stack([p[1] for p in pairs]))
        labels[1][labels[1] == 2] = 0    # a class without labels, but predicted
        labels[2][labels[2] == 3] = 1
        predicted[2][predicted[2] == 3] = 0  # a class that neither has
        predicted[3] = 0                 # nothing predicted but background
        labels[0], predicted[0] = labels[0], labels[0]  # all right
        hot, hot_predicted = one_hot(labels, 4).float(), one_hot(predicted, 4).float()
        tensors.update({f"{form}/labels": labels.to(torch.int32), f"{form}/predicted": predicted.to(torch.int32)})
        for metric, make in (("dice", DiceMetric), ("iou", MeanIoU)):
            values = make(include_background=True, reduction="none")(hot_predicted, hot)
            tensors[f"{form}/{metric}"] = values
            for background in (True, False):
                suffix = "" if background else "_foreground"
                for reduction in ("mean", "mean_batch"):
                    found = make(include_background=background, reduction=reduction)
                    found(hot_predicted, hot)
                    tensors[f"{form}/{metric}_{reduction}{suffix}"] = found.aggregate().reshape(-1)
        for kind, steps in (("unit", None), ("spaced", list(spacing))):
            for percentile in (95, 50, 100):
                tensors[f"{form}/hd{percentile}_{kind}"] = compute_hausdorff_distance(
                    hot_predicted, hot, include_background=True, percentile=percentile, spacing=steps)
        mean = HausdorffDistanceMetric(include_background=False, percentile=95)
        mean(hot_predicted, hot, spacing=list(spacing))
        tensors[f"{form}/hd95_mean_foreground"] = mean.aggregate().reshape(-1)
        tensors[f"{form}/spacing"] = torch.tensor(spacing, dtype=torch.float64)
    sites = generator.random((9, 14, 11)) < 0.01
    tensors["edt/sites"] = torch.tensor(sites.astype(np.int32))
    tensors["edt/unit"] = torch.tensor(ndimage.distance_transform_edt(~sites))
    tensors["edt/spaced"] = torch.tensor(ndimage.distance_transform_edt(~sites, sampling=(2.5, 0.8, 1.3)))
    write("segmentation_metrics", tensors, {})


# --- sliding window --------------------------------------------------------------------------------------------------

def predictor(window):
    """Two outputs of a voxel that depend on where it stands in its window."""
    sides = window.shape[2:]
    place = torch.arange(int(np.prod(sides)), dtype=torch.float32).reshape(sides) / np.prod(sides)
    return torch.stack([window.sum(1) * place, window[:, 0] - place], 1)


def make_windows():
    generator = torch.Generator().manual_seed(3)
    tensors, cases = {}, {}
    shapes = {"image": ([2, 1, 21, 30], [8, 12]), "volume": ([1, 2, 9, 12, 10], [4, 8, 4]),
              "small": ([1, 1, 5, 9, 7], [8, 8, 8]), "exact": ([1, 2, 8, 12], [8, 12])}
    for (name, (shape, window)), overlap, blend in itertools.product(
            shapes.items(), (0.25, 0.5), ("constant", "gaussian")):
        if name + "/input" not in tensors:
            tensors[name + "/input"] = torch.randn(shape, generator=generator)
        case = f"{name}_{blend}_{int(100 * overlap)}"
        cases[case] = {"input": name, "window": window, "overlap": overlap, "blend": blend}
        tensors["output/" + case] = sliding_window_inference(
            tensors[name + "/input"], window, 3, predictor, overlap=overlap, mode=blend)
    write("sliding_window", tensors, {"cases": cases})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    make_losses(sys.argv[1])
    make_metrics()
    make_windows()
