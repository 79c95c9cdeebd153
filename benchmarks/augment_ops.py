#!/usr/bin/env python3
"""Speed of the operations of augmentation against Pillow through timm, one thread, in one run on one machine.

Each operation of timm's RandAugment and AutoAugment is given the same 224x224 image and argument in both; results
are compared byte by byte. Then both are timed, by processor time, in rounds that alternate. The last rows are whole policies.

    cmake --build build/release --target augment_ops
    PYTHONPATH=<folder with a pillow below 13> python3 benchmarks/augment_ops.py [--rounds 5] [--write]
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy as np
import PIL
import provenance
import timm
import torch
from PIL import Image
from timm.data import auto_augment as aa

ROOT = provenance.ROOT
SIDE = 224
POLICY_IMAGES = 200
GEOMETRY = [("Rotate", 27.0), ("ShearX", 0.27), ("ShearY", 0.27), ("TranslateXRel", 0.405), ("TranslateYRel", 0.405)]
VALUES = [("AutoContrast", 0), ("Equalize", 0), ("Invert", 0), ("Posterize", 1), ("Solarize", 26), ("SolarizeAdd", 99),
          ("Color", 1.72), ("Color", 0.5), ("Contrast", 1.72), ("Brightness", 1.72), ("Sharpness", 1.72),
          ("GaussianBlur", 2.0)]
POLICIES = ["rand-m9-mstd0.5-inc1", "original", "3a"]
FILTERS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR,
           "bicubic": Image.Resampling.BICUBIC}


def photograph():
    """Clouds over several scales with noise: about as smooth as a photograph."""
    rng = np.random.default_rng(0)
    image = np.zeros((SIDE, SIDE, 3))
    for step in (7, 14, 28, 56, 112):
        coarse = rng.normal(0, step / 2, (SIDE // step + 1, SIDE // step + 1, 3))
        planes = [Image.fromarray(coarse[:, :, c].astype(np.float32)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
                  for c in range(3)]
        image += np.stack([np.asarray(plane) for plane in planes], -1)
    return np.clip(image + 120 + rng.normal(0, 4, image.shape), 0, 255).astype(np.uint8)


def all_cases():
    """(label, line for the program, function of the image)."""
    cases = []
    for name, arg in GEOMETRY:
        for filter_name, mode in FILTERS.items():
            cases.append((f"{name} {arg}, {filter_name}", f"{name} {arg} {filter_name}",
                          lambda image, name=name, arg=arg, mode=mode: aa.NAME_TO_OP[name](
                              image, arg, fillcolor=(128, 128, 128), resample=mode)))
    for name, arg in VALUES:
        given = () if aa.LEVEL_TO_ARG[name] is None else (arg,)
        cases.append((f"{name} {arg}" if given else name, f"{name} {arg} nearest",
                      lambda image, name=name, given=given: aa.NAME_TO_OP[name](image, *given)))
    for text in POLICIES:
        make = aa.rand_augment_transform if text.startswith("rand") else aa.auto_augment_transform
        cases.append((text, f"policy {text}", make(text)))
    return cases


def median_milliseconds(seconds, function):
    """Median over runs of about a millisecond, as the program does it."""
    def timed(calls):
        start = time.thread_time()
        for _ in range(calls):
            function()
        return (time.thread_time() - start) * 1e3 / calls

    calls = max(1, int(1.0 / max(timed(3), 1e-4)))
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        times.append(timed(calls))
    return statistics.median(times)


def mean_milliseconds(function):
    """Mean over many images: a policy's operations differ much."""
    start = time.thread_time()
    for _ in range(POLICY_IMAGES):
        function()
    return (time.thread_time() - start) * 1e3 / POLICY_IMAGES


def run_program(program, raw, cases, seconds, folder):
    lines = "\n".join(line for _, line, _ in cases) + "\n"
    result = subprocess.run([program, raw, str(SIDE), str(SIDE), "3", str(seconds), folder], input=lines, text=True,
                            capture_output=True, check=True)
    return [float(value) for value in result.stdout.split()]


def differences(image, cases, folder):
    """(largest difference, share of bytes that differ) of each operation."""
    found = []
    for number, (_, line, function) in enumerate(cases):
        if line.startswith("policy"):
            found.append(None)
            continue
        ours = np.fromfile(pathlib.Path(folder) / f"{number}.raw", np.uint8).astype(int)
        distance = np.abs(ours - np.asarray(function(image)).reshape(-1))
        found.append((distance.max(), (distance > 0).mean()))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/augment_ops"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each case and round")
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cases = all_cases()
    array = photograph()
    image = Image.fromarray(array)
    with tempfile.TemporaryDirectory() as folder:
        raw = str(pathlib.Path(folder) / "image.raw")
        array.tofile(raw)
        ours, peers = [], []
        for _ in range(args.rounds):
            ours.append(run_program(args.program, raw, cases, args.seconds, folder))
            peers.append([mean_milliseconds(lambda f=function: f(image)) if line.startswith("policy") else
                          median_milliseconds(args.seconds, lambda f=function: f(image))
                          for _, line, function in cases])
        compared = differences(image, cases, folder)
    lines = [f"# Operations of augmentation: Fovea against Pillow, {SIDE}x{SIDE}x3, one thread", "",
             f"{provenance.line()} Pillow {PIL.__version__}, timm {timm.__version__}.",
             "", f"Command: `benchmarks/augment_ops.py --rounds {args.rounds} --seconds {args.seconds}`. Medians over "
             "rounds that alternate between the two; the ratio is the median of the rounds' ratios, in brackets their "
             "range. Milliseconds of processor time. Difference: the largest, and the share of bytes that differ.", "",
             "| operation | Fovea ms | Pillow ms | ratio | difference |", "| --- | --- | --- | --- | --- |"]
    for i, (label, _, _) in enumerate(cases):
        ratios = sorted(peer[i] / own[i] for own, peer in zip(ours, peers))
        difference = "" if compared[i] is None else f"{compared[i][0]} ({compared[i][1]:.1e})"
        lines.append(f"| {label} | {statistics.median(r[i] for r in ours):.4f} | "
                     f"{statistics.median(r[i] for r in peers):.3f} | "
                     f"{statistics.median(ratios):.1f} ({ratios[0]:.1f} to {ratios[-1]:.1f}) | {difference} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if args.write:
        provenance.keep("augment_ops", text)


if __name__ == "__main__":
    main()
