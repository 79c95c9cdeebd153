#!/usr/bin/env python3
"""Milliseconds of each volume transform, Fovea against MONAI, on one thread, in one run on one machine.

Rounds alternate between the two; a figure is the median over all steps of all rounds. Fovea's time is that of a whole
pipeline with this one transform: check for NaN, transform, copy into the batch. MONAI's is the transform's alone.
Geometry moves a volume and its mask in both. That the values agree is what the goldens of tests/data hold.

    cmake --build build/release --target bench_volume_transforms
    python3 benchmarks/volume_transforms.py [--size 128] [--rounds 5] [--steps 3] [--write]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings

import provenance

ROOT = provenance.ROOT


def cases(size):
    """(name, Fovea's list, has a mask, MONAI's transform of a volume, and of its mask)."""
    import monai.transforms as m
    from monai.data import MetaTensor
    import torch

    half = size // 2
    ranges = dict(rotate_range=[0.3] * 3, shear_range=[0.05] * 6, translate_range=[5.0] * 3, scale_range=[0.1] * 3)

    def affine(padding):
        lists = ", ".join(f"{key}: {value}" for key, value in ranges.items())
        grid_args = {key: tuple(value) for key, value in ranges.items()}
        return (f"[{{name: rand_affine, prob: 1, {lists}, padding_mode: {padding}}}]", True,
                m.RandAffine(1.0, mode="bilinear", padding_mode=padding, **grid_args),
                m.RandAffine(1.0, mode="nearest", padding_mode=padding, **grid_args))

    def spaced(mode):
        resample = m.Spacing((1.25, 1.25, 1.25), mode=mode)
        return lambda x: resample(MetaTensor(x, affine=torch.eye(4)))

    crop = m.RandCropByPosNegLabel(half, num_samples=1)
    table = {
        "spatial_pad": (f"[{{name: spatial_pad, spatial_size: {size + 16}}}]", True, m.SpatialPad(size + 16),
                        m.SpatialPad(size + 16)),
        "center_spatial_crop": (f"[{{name: center_spatial_crop, roi_size: {half}}}]", True,
                                m.CenterSpatialCrop(half), m.CenterSpatialCrop(half)),
        "rand_spatial_crop": (f"[{{name: rand_spatial_crop, roi_size: {half}}}]", True,
                              m.RandSpatialCrop(half, random_size=False), m.RandSpatialCrop(half, random_size=False)),
        "rand_crop_by_pos_neg_label": (f"[{{name: rand_crop_by_pos_neg_label, spatial_size: {half}}}]", True,
                                       None, lambda both: [crop(both[0], label=both[1])[0].clone(),
                                                           crop(both[1], randomize=False)[0].clone()]),
        "crop_foreground": ("[{name: crop_foreground, threshold: 1.2}]", False,
                            m.CropForeground(lambda x: x > 1.2), None),
        "rand_flip (W)": ("[{name: rand_flip, prob: 1, spatial_axis: 2}]", True, m.Flip(2), m.Flip(2)),
        "rand_rotate90 (D, W)": ("[{name: rand_rotate90, prob: 1, max_k: 1, spatial_axes: [0, 2]}]", True,
                                 lambda x: m.Rotate90(1, (0, 2))(x).contiguous(),
                                 lambda x: m.Rotate90(1, (0, 2))(x).contiguous()),
        "rand_affine (reflection)": affine("reflection"),
        "rand_affine (zeros)": affine("zeros"),
        "resize to half": (f"[{{name: resize, spatial_size: {half}, mask_mode: nearest}}]", True,
                           m.Resize(half_size(half), mode="trilinear"), m.Resize(half_size(half), mode="nearest")),
        "resize to half, anti_aliasing": (f"[{{name: resize, spatial_size: {half}, anti_aliasing: true}}]", False,
                                          m.Resize(half_size(half), mode="trilinear", anti_aliasing=True), None),
        "spacing 1 to 1.25 mm": ("[{name: spacing, pixdim: 1.25}]", True, spaced("bilinear"), spaced("nearest")),
        "rand_shift_intensity": ("[{name: rand_shift_intensity, prob: 1}]", False, m.RandShiftIntensity(0.1, prob=1.0),
                                 None),
        "rand_scale_intensity": ("[{name: rand_scale_intensity, prob: 1}]", False, m.RandScaleIntensity(0.1, prob=1.0),
                                 None),
        "rand_gaussian_noise": ("[{name: rand_gaussian_noise, prob: 1}]", False, m.RandGaussianNoise(1.0), None),
        "rand_gaussian_smooth (sigma 1)": (
            "[{name: rand_gaussian_smooth, prob: 1, sigma_x: [1, 1], sigma_y: [1, 1], sigma_z: [1, 1]}]", False,
            m.GaussianSmooth(1.0), None),
        "scale_intensity_range": ("[{name: scale_intensity_range, a_min: 0.2, a_max: 1.5, clip: true}]", False,
                                  m.ScaleIntensityRange(0.2, 1.5, 0.0, 1.0, clip=True), None),
        "scale_intensity": ("[scale_intensity]", False, m.ScaleIntensity(), None),
        "normalize_intensity": ("[normalize_intensity]", False, m.NormalizeIntensity(), None),
        "normalize_intensity (nonzero)": ("[{name: normalize_intensity, nonzero: true, channel_wise: true}]", False,
                                          lambda x: m.NormalizeIntensity(nonzero=True, channel_wise=True)(x.clone()),
                                          None),
    }
    return table


def half_size(half):
    return (half, half, half)


def make_volume(size):
    import torch

    torch.manual_seed(0)
    values = torch.rand(1, size, size, size) + torch.arange(size) * 0.01
    mask = torch.zeros(1, size, size, size)
    third, half = size // 3, size // 2
    mask[:, third + 1:half, :, third + 1:half] = 1
    return values, mask


def time_monai(case, volume, mask, steps):
    _, has_mask, of_volume, of_mask = case
    milliseconds = []
    for step in range(-1, steps):
        start = time.perf_counter()
        if of_volume is None:
            of_mask((volume, mask))
        else:
            of_volume(volume)
            if has_mask:
                of_mask(mask)
        if step >= 0:
            milliseconds.append(1e3 * (time.perf_counter() - start))
    return milliseconds


def time_fovea(args, case):
    command = [args.program, case[0], str(args.size), "1", str(int(case[1])), str(args.steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def report(args, rows):
    import monai
    import torch

    lines = [f"# Volume transforms: Fovea against MONAI, {args.size}^3, float32", "",
             f"{provenance.line()} 1 thread. torch "
             f"{torch.__version__}, monai {monai.__version__}.", "",
             f"Command: `benchmarks/volume_transforms.py --size {args.size} --rounds {args.rounds} --steps {args.steps}`. "
             f"Medians over {args.rounds} alternating rounds of {args.steps} steps; in brackets the range of the rounds' "
             "medians. Fovea: a whole pipeline with this one transform (check for NaN, transform, copy into the batch). "
             "Geometry moves a volume and its mask in both; the rest a volume.", "",
             "| transform | Fovea ms | MONAI ms | ratio |", "| --- | --- | --- | --- |"]
    for name, rounds in rows.items():
        medians = [[statistics.median(part[i]) for part in rounds] for i in (0, 1)]
        ours, theirs = (statistics.median(sum((part[i] for part in rounds), [])) for i in (0, 1))
        ranges = [f"{min(values):.1f} to {max(values):.1f}" for values in medians]
        lines.append(f"| {name} | {ours:.1f} ({ranges[0]}) | {theirs:.1f} ({ranges[1]}) | {theirs / ours:.1f} |")
    provenance.show(args, "volume_transforms", lines)


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/benchmarks/bench_volume_transforms"))
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--cases", nargs="*", help="names; default: all")
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    volume, mask = make_volume(args.size)
    rows = {}
    for name, case in cases(args.size).items():
        if args.cases and name not in args.cases:
            continue
        for _ in range(args.rounds):
            pair = (time_fovea(args, case), time_monai(case, volume, mask, args.steps))
            rows.setdefault(name, []).append(pair)
        print(f"{name}: {statistics.median(rows[name][-1][0]):.2f} {statistics.median(rows[name][-1][1]):.2f} ms",
              file=sys.stderr, flush=True)
    report(args, rows)


if __name__ == "__main__":
    main()
