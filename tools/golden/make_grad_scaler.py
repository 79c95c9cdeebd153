"""Golden for optim::GradScaler: the scales of torch.amp.GradScaler over steps of which some have a gradient that is not finite.

Needs torch 2.11.0, safetensors.

    python tools/golden/make_grad_scaler.py
"""
import json
import pathlib

import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
CASES = {
    "defaults": {},
    "often": {"init_scale": 1024.0, "growth_interval": 3},
    "odd_factors": {"init_scale": 1000.0, "growth_factor": 1.7, "backoff_factor": 0.3, "growth_interval": 2},
    "at_the_top": {"init_scale": 2.0**126, "growth_interval": 1},
}
STEPS = 60


def scales_of(options, is_finite):
    """The scale after each step."""
    scaler = torch.amp.GradScaler("cpu", **options)
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scales = []
    for finite in is_finite:
        optimizer.zero_grad()
        before = weight.detach().clone()
        scaler.scale(weight.sum() * 1e-3).backward()
        if not finite:
            weight.grad[1] = float("nan") if len(scales) % 2 else float("inf")
        scaler.step(optimizer)
        assert torch.equal(weight, before) != finite
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


def main():
    generator = torch.Generator().manual_seed(5)
    tensors = {}
    for name, options in CASES.items():
        is_finite = torch.rand(STEPS, generator=generator) > 0.2
        tensors[f"{name}/is_finite"] = is_finite.to(torch.uint8)
        tensors[f"{name}/scale"] = torch.tensor(scales_of(options, is_finite.tolist()), dtype=torch.float32)
    versions = {"torch": torch.__version__, "maker": "tools/golden/make_grad_scaler.py"}
    save_file(tensors, OUT / "grad_scaler.safetensors", {"config": json.dumps(CASES), "versions": json.dumps(versions)})


main()
