"""Goldens for fovea/nn/pos_embed: each way of resizing, its gradient, and the sin-cos tables.

    python tools/golden/make_pos_embed.py
"""
import pathlib

import torch
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed

import pos_embed

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "pos_embed.safetensors"
# name: interpolation, old grid, new grid, prefix rows.
CASES = {
    "bicubic_smaller": ("bicubic", (6, 5), (4, 3), 1),
    "bicubic_larger": ("bicubic", (4, 4), (7, 9), 2),
    "bilinear_mixed": ("bilinear", (4, 6), (7, 3), 0),
    "zoom_larger": ("zoom", (4, 4), (9, 6), 1),
    "zoom_smaller": ("zoom", (6, 7), (3, 1), 1),
    "dinov2_larger": ("dinov2", (5, 5), (8, 11), 1),
    "dinov2_smaller": ("dinov2", (7, 7), (4, 5), 1),
    "trilinear": ("bicubic", (3, 4, 2), (5, 3, 4), 1),
    "zoom_volume": ("zoom", (3, 4, 2), (5, 3, 4), 0),
}
SINCOS = {"square": ((3, 3), 16, 1), "wide": ((2, 5), 8, 0), "volume": ((2, 3, 4), 12, 2)}

if __name__ == "__main__":
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for name, (interp, old, new, prefix) in CASES.items():
        rows = prefix + int(torch.tensor(old).prod())
        table = torch.randn([1, rows, 8], generator=generator).requires_grad_()
        resized = pos_embed.resize(table, old, new, prefix, interp)
        weight = torch.randn(resized.shape, generator=generator)
        (resized * weight).sum().backward()
        expected = resized.detach()
        if interp == "zoom":
            by_scipy = pos_embed.zoom(table.detach(), old, new, prefix)
            torch.testing.assert_close(expected, by_scipy, rtol=1e-5, atol=1e-6)
            expected = by_scipy
        if interp == "bicubic" and len(old) == 2:
            by_timm = resample_abs_pos_embed(table.detach(), new, old, prefix)
            torch.testing.assert_close(expected, by_timm, rtol=0, atol=0)
        tensors |= {f"{name}/table": table.detach(), f"{name}/resized": expected, f"{name}/weight": weight,
                    f"{name}/gradient": table.grad}
    for name, (grid, dim, prefix) in SINCOS.items():
        tensors[f"sincos/{name}"] = pos_embed.sincos(grid, dim, prefix).float()
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT)
    print(f"{OUT.name}: {len(tensors)} tensors, {OUT.stat().st_size} bytes")
