"""Goldens for fovea/optim/lamb.h and adafactor.h: timm.optim.Lamb and torch.optim.Adafactor on given gradients, and in ten
steps of a tiny timm ViT with a schedule and clipping.

Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_lamb_adafactor.py
"""
import json
import pathlib

import ten_steps
import timm
import torch
from make_optim import normal
from safetensors.torch import save_file
from timm.optim import Lamb

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
VERSIONS = {"torch": torch.__version__, "timm": timm.__version__, "maker": "tools/golden/make_lamb_adafactor.py"}

SHAPES = {"weight": (37, 50), "bias": (50,), "scale": (), "kernel": (3, 2, 5), "patches": (6, 3, 4, 5)}
GROUPS = {"weight": (1.0, 0.1), "bias": (1.0, 0.0), "scale": (0.5, 0.0), "kernel": (0.25, 0.1), "patches": (1.0, 0.2)}
LRS = [1e-3, 5e-3, 1e-2, 7e-3, 2e-3, 0.0, 3e-3]
LAMB = {
    "default": dict(),
    "not_clipped": dict(max_grad_norm=0.0, betas=[0.8, 0.95], eps=1e-3),
    "trust_clip": dict(trust_clip=True, always_adapt=True),
    "decoupled": dict(decoupled_decay=True),
    "uncorrected": dict(bias_correction=False, grad_averaging=False),
}
ADAFACTOR = {
    "default": dict(),
    "other": dict(beta2_decay=-0.5, eps1=1e-4, eps2=1e-2, clip_threshold=2.0),
    "large_lr": dict(lr_factor=300.0),  # beyond 1 / sqrt(step)
}


def make_lamb(groups, options):
    return Lamb(groups, betas=tuple(options.get("betas", (0.9, 0.999))), eps=options.get("eps", 1e-6),
                bias_correction=options.get("bias_correction", True), grad_averaging=options.get("grad_averaging", True),
                max_grad_norm=options.get("max_grad_norm", 1.0) or None, trust_clip=options.get("trust_clip", False),
                always_adapt=options.get("always_adapt", False), decoupled_decay=options.get("decoupled_decay", False))


def make_adafactor(groups, options):
    return torch.optim.Adafactor(groups, beta2_decay=options.get("beta2_decay", -0.8), d=options.get("clip_threshold", 1.0),
                                 eps=(options.get("eps1"), options.get("eps2", 1e-3)))


MAKERS = {"lamb": (make_lamb, LAMB, ("exp_avg", "exp_avg_sq")),
          "adafactor": (make_adafactor, ADAFACTOR, ("row_var", "col_var", "variance"))}


def make_given_gradients(kind):
    maker, cases, moments = MAKERS[kind]
    generator = torch.Generator().manual_seed(31)
    start = {name: normal(generator, *shape) for name, shape in SHAPES.items()}
    start["bias"] = torch.zeros_like(start["bias"])  # no trust ratio, and a size below eps2
    grads = [{name: normal(generator, *shape) * 10.0 ** (step % 3 - 1) for name, shape in SHAPES.items()}
             for step in range(len(LRS))]
    tensors = {f"start/{name}": value for name, value in start.items()}
    for step, values in enumerate(grads):
        tensors.update({f"grad{step}/{name}": value for name, value in values.items()})
    for case, options in cases.items():
        params = {name: value.clone().requires_grad_() for name, value in start.items()}
        optimizer = maker([dict(params=[params[name]], lr=1.0, weight_decay=GROUPS[name][1]) for name in SHAPES], options)
        for lr, values in zip(LRS, grads):
            for group, name in zip(optimizer.param_groups, SHAPES):
                group["lr"] = lr * GROUPS[name][0] * options.get("lr_factor", 1.0)
                params[name].grad = values[name].clone()
            optimizer.step()
        for name, param in params.items():
            tensors[f"{case}/{name}"] = param.detach()
            for moment in moments:
                if moment in optimizer.state[param]:
                    tensors[f"{case}.state/{moment}/{name}"] = optimizer.state[param][moment].clone()
    config = {"lrs": LRS, "groups": GROUPS, "cases": cases}
    save_file(tensors, OUT / f"{kind}.safetensors", {"config": json.dumps(config), **VERSIONS})


def make_ten_steps(kind, config, seed):
    maker, _, moments = MAKERS[kind]

    def make_step(settings, config):
        optimizer = maker([dict(params=[param], weight_decay=decay) for _, param, decay in settings], config)

        def step(lr):
            for group in optimizer.param_groups:
                group["lr"] = lr
            optimizer.step()

        return step, lambda: optimizer.state

    ten_steps.make(f"{kind}_ten_steps.safetensors", config, make_step, moments, VERSIONS, seed)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in MAKERS:
        make_given_gradients(chosen)
    # eps and eps1: above the gradient of the keys' bias, which is rounding noise alone.
    make_ten_steps("lamb", dict(lr=5e-3, weight_decay=0.05, betas=[0.9, 0.99], eps=1e-4, max_grad_norm=0.5), 32)
    make_ten_steps("adafactor", dict(lr=2e-2, weight_decay=0.05, eps1=1e-3), 33)
