"""Goldens for fovea/optim/muon.h: torch.optim.Muon for the matrices and torch.optim.AdamW for the rest, on given
gradients and in ten steps of a tiny timm ViT with a schedule and clipping.

torch rounds the Newton-Schulz iteration to bfloat16, on every device. Here the one call of its source that does so is
replaced by a conversion to float32 (and a copy, since the next line works in place): Fovea's precision on the CPU.

Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_muon.py
"""
import fnmatch
import inspect
import json
import pathlib

import timm
import torch
import ten_steps
from make_optim import normal
from safetensors.torch import save_file
from torch.optim import _muon

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
VERSIONS = {"torch": torch.__version__, "timm": timm.__version__, "maker": "tools/golden/make_muon.py"}

source = inspect.getsource(_muon._zeropower_via_newtonschulz)
assert source.count("grad.bfloat16()") == 1
exec(source.replace("grad.bfloat16()", "grad.float().clone()"), _muon.__dict__)

SHAPES = {"blocks.0.attn.qkv.weight": (36, 12), "blocks.0.attn.qkv.bias": (36,), "blocks.0.attn.proj.weight": (12, 12),
          "blocks.0.mlp.fc2.weight": (12, 40), "blocks.0.gate.weight": (3, 2, 5), "head.weight": (5, 12), "scale": ()}
GROUPS = {"blocks.0.attn.qkv.weight": (1.0, 0.1), "blocks.0.attn.qkv.bias": (1.0, 0.0),
          "blocks.0.attn.proj.weight": (0.5, 0.2), "blocks.0.mlp.fc2.weight": (0.25, 0.0),
          "blocks.0.gate.weight": (0.5, 0.1), "head.weight": (1.0, 0.1), "scale": (0.5, 0.0)}
LRS = [1e-3, 5e-3, 1e-2, 7e-3, 2e-3, 0.0, 3e-3]
MATRICES = "*blocks.*.weight"
CASES = {
    "default": dict(),
    "original": dict(adjust_lr="original", momentum=0.8),
    "plain_momentum": dict(nesterov=False, ns_steps=3),
    "split_qkv": dict(split_qkv=True, adjust_lr="original"),
    "slow_adamw": dict(adamw_lr_scale=0.3, betas=[0.8, 0.95], eps=1e-3),
}


def is_matrix(name, shape):
    return len(shape) == 2 and fnmatch.fnmatch(name, MATRICES)


def make_pair(settings, options):
    """torch's two optimizers. settings: (parameters, is a matrix, lr scale, weight decay). -> two functions, a step and the state."""
    muon = _muon.Muon(
        [dict(params=params, lr_scale=scale, weight_decay=decay) for params, matrix, scale, decay in settings if matrix],
        momentum=options.get("momentum", 0.95), nesterov=options.get("nesterov", True),
        ns_steps=options.get("ns_steps", 5), adjust_lr_fn=options.get("adjust_lr", "match_rms_adamw"))
    adamw_scale = options.get("adamw_lr_scale", 1.0)
    adamw = torch.optim.AdamW(
        [dict(params=params, lr_scale=scale * adamw_scale, weight_decay=decay)
         for params, matrix, scale, decay in settings if not matrix],
        betas=tuple(options.get("betas", (0.9, 0.999))), eps=options.get("eps", 1e-8))

    def step(lr):
        for optimizer in (muon, adamw):
            for group in optimizer.param_groups:
                group["lr"] = lr * group["lr_scale"]
            optimizer.step()

    return step, lambda: {**muon.state, **adamw.state}


def make_given_gradients():
    generator = torch.Generator().manual_seed(21)
    start = {name: normal(generator, *shape) for name, shape in SHAPES.items()}
    grads = [{name: normal(generator, *shape) * 10.0 ** (step % 3 - 1) for name, shape in SHAPES.items()}
             for step in range(len(LRS))]
    tensors = {f"start/{name}": value for name, value in start.items()}
    for step, values in enumerate(grads):
        tensors.update({f"grad{step}/{name}": value for name, value in values.items()})
    for case, options in CASES.items():
        # The parts of a split qkv are parameters of their own to torch.
        parts = {name: 3 if options.get("split_qkv") and "qkv.weight" in name else 1 for name in SHAPES}
        params = {name: [part.clone().requires_grad_() for part in
                         (value.chunk(parts[name]) if parts[name] > 1 else (value,))] for name, value in start.items()}
        step, state = make_pair(
            [(params[name], is_matrix(name, shape), *GROUPS[name]) for name, shape in SHAPES.items()], options)
        for lr, values in zip(LRS, grads):
            for name, value in values.items():
                pieces = value.chunk(parts[name]) if parts[name] > 1 else (value,)
                for param, piece in zip(params[name], pieces):
                    param.grad = piece.clone()
            step(lr)
        for name, pieces in params.items():
            join = torch.cat if parts[name] > 1 else lambda values: values[0]
            tensors[f"{case}/{name}"] = join([piece.detach() for piece in pieces]).clone()
            for moment in ("momentum_buffer", "exp_avg", "exp_avg_sq"):
                if moment in state()[pieces[0]]:
                    tensors[f"{case}.state/{moment}/{name}"] = join([state()[piece][moment] for piece in pieces]).clone()
    config = {"lrs": LRS, "groups": GROUPS, "cases": CASES}
    save_file(tensors, OUT / "muon.safetensors", {"config": json.dumps(config), **VERSIONS})


def make_ten_steps():
    def make_step(settings, config):
        return make_pair([([param], is_matrix(name, param.shape), 1.0, decay) for name, param, decay in settings], config)

    # eps: above the gradient of the keys' bias, which is rounding noise alone.
    config = dict(eps=1e-4, lr=5e-3, weight_decay=0.05, betas=[0.9, 0.99])
    ten_steps.make("muon_ten_steps.safetensors", config, make_step, ("momentum_buffer", "exp_avg", "exp_avg_sq"), VERSIONS, 22)


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_given_gradients()
    make_ten_steps()
