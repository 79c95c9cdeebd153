"""Golden for optim::clip_gradients_adaptively: timm's adaptive_clip_grad on gradients of every rank, small and large, with
weights of zeros and units whose gradient is zero.

Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_adaptive_clip.py
"""
import json
import pathlib

import timm
import torch
from safetensors.torch import save_file
from timm.utils.agc import adaptive_clip_grad

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
SHAPES = {"patch_embed.proj.weight": (6, 2, 3, 3), "blocks.0.attn.qkv.weight": (12, 7), "blocks.0.attn.qkv.bias": (12,),
          "cls_token": (1, 1, 7), "scale": (), "zero.weight": (4, 5), "empty": (0, 4)}
FACTORS = [0.01, 0.3, 2.0]


def main():
    generator = torch.Generator().manual_seed(21)
    tensors = {}
    for name, shape in SHAPES.items():
        weight, grad = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
        if name == "zero.weight":
            weight.zero_()
        if len(shape) > 1 and shape[0] > 2:  # units of all sizes, and one of zeros
            grad *= torch.logspace(-4, 2, shape[0]).view(-1, *[1] * (len(shape) - 1))
            grad[1] = 0
        tensors[f"weight/{name}"], tensors[f"grad/{name}"] = weight, grad
    for factor in FACTORS:
        params = {name: tensors[f"weight/{name}"].double().requires_grad_() for name in SHAPES}
        for name, param in params.items():
            param.grad = tensors[f"grad/{name}"].double()
        adaptive_clip_grad(params.values(), clip_factor=factor)
        tensors |= {f"clipped_{factor:g}/{name}": param.grad.float() for name, param in params.items()}
    versions = {"torch": torch.__version__, "timm": timm.__version__, "maker": "tools/golden/make_adaptive_clip.py"}
    save_file({n: t.contiguous() for n, t in tensors.items()}, OUT / "adaptive_clip.safetensors",
              {"config": json.dumps({"factors": FACTORS}), "versions": json.dumps(versions)})


main()
