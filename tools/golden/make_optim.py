"""Goldens for fovea/optim: torch's optimizers and clipping on given gradients, timm's schedules, parameter groups and
moving average, and ten steps of all of it together on a tiny timm ViT.

Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_optim.py
"""
import json
import pathlib

import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_layer_decay, param_groups_weight_decay
from timm.scheduler import CosineLRScheduler, PolyLRScheduler, StepLRScheduler
from timm.utils import ModelEmaV3

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
VERSIONS = {"torch": torch.__version__, "timm": timm.__version__, "maker": "tools/golden/make_optim.py"}


def normal(generator, *shape):
    return torch.randn(shape, generator=generator)


# Optimizers on given gradients ----------------------------------------------------------------------------------------

SHAPES = {"weight": (37, 50), "bias": (50,), "scale": (), "kernel": (3, 2, 5), "empty": (0, 4)}
GROUPS = {"weight": (1.0, 0.1), "bias": (1.0, 0.0), "scale": (0.5, 0.0), "kernel": (0.25, 0.1), "empty": (1.0, 0.1)}
LRS = [1e-3, 5e-3, 1e-2, 7e-3, 2e-3, 0.0, 3e-3]
OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, dict(betas=(0.9, 0.999), eps=1e-8)),
    "adamw_other": (torch.optim.AdamW, dict(betas=(0.8, 0.95), eps=1e-3)),
    "sgd_plain": (torch.optim.SGD, dict(momentum=0.0)),
    "sgd_momentum": (torch.optim.SGD, dict(momentum=0.9)),
    "sgd_dampened": (torch.optim.SGD, dict(momentum=0.8, dampening=0.3)),
    "sgd_nesterov": (torch.optim.SGD, dict(momentum=0.9, nesterov=True)),
}
MOMENTS = {"adamw": ["exp_avg", "exp_avg_sq"], "sgd": ["momentum_buffer"]}


def make_optimizers():
    generator = torch.Generator().manual_seed(11)
    start = {name: normal(generator, *shape) for name, shape in SHAPES.items()}
    grads = [{name: normal(generator, *shape) * 10.0 ** (step % 3 - 1) for name, shape in SHAPES.items()}
             for step in range(len(LRS))]
    tensors = {f"start/{name}": value for name, value in start.items()}
    for step, values in enumerate(grads):
        tensors.update({f"grad{step}/{name}": value for name, value in values.items()})
    configs = {}
    for case, (kind, options) in OPTIMIZERS.items():
        params = {name: value.clone().requires_grad_() for name, value in start.items()}
        groups = [dict(params=[params[name]], lr=1.0, weight_decay=GROUPS[name][1]) for name in SHAPES]
        optimizer = kind(groups, **options)
        for lr, values in zip(LRS, grads):
            for group, name in zip(optimizer.param_groups, SHAPES):
                group["lr"] = lr * GROUPS[name][0]
                params[name].grad = values[name].clone()
            optimizer.step()
        for name, param in params.items():
            tensors[f"{case}/{name}"] = param.detach()
            for moment in MOMENTS[case.split("_")[0]] if options.get("momentum", 1) else []:
                tensors[f"{case}.state/{moment}/{name}"] = optimizer.state[param][moment].clone()
        configs[case] = options
    config = {"lrs": LRS, "groups": GROUPS, "cases": configs}
    save_file(tensors, OUT / "optimizers.safetensors", {"config": json.dumps(config), **VERSIONS})


def make_clip():
    generator = torch.Generator().manual_seed(12)
    grads = [normal(generator, 300, 7), normal(generator, 41)]
    tensors = {"grad": torch.cat([g.flatten() for g in grads])}
    norms = {}
    for max_norm in (0.5, 10.0, 1e6):
        params = [torch.zeros_like(g, requires_grad=True) for g in grads]
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        norms[f"norm_{max_norm:g}"] = torch.nn.utils.clip_grad_norm_(params, max_norm).item()
        tensors[f"norm_{max_norm:g}"] = torch.cat([p.grad.flatten() for p in params])
    torch.nn.utils.clip_grad_value_(params, 0.75)
    tensors["value_0.75"] = torch.cat([p.grad.flatten() for p in params])
    save_file(tensors, OUT / "clip.safetensors", {"config": json.dumps(norms), **VERSIONS})


# Schedules ------------------------------------------------------------------------------------------------------------

def timm_cycles(kind, total, **options):
    keys = dict(min_lr="lr_min", warmup_steps="warmup_t", warmup_lr="warmup_lr_init")
    return kind, dict(t_initial=total, **{keys.get(key, key): value for key, value in options.items()})


def schedule_cases():
    """Fovea's config -> timm's scheduler with its arguments."""
    cosine, poly = CosineLRScheduler, PolyLRScheduler
    warm = dict(warmup_steps=15, warmup_lr=1e-5)
    for options in (
            dict(), dict(min_lr=1e-4), dict(warm, min_lr=1e-4), dict(warm, min_lr=1e-4, warmup_prefix=True),
            dict(cycle_limit=3, cycle_decay=0.5),
            dict(warm, cycle_limit=3, cycle_mul=2.0, cycle_decay=0.7, min_lr=1e-5),
            dict(cycle_limit=4, cycle_mul=1.5, warmup_prefix=True, warmup_steps=7), dict(k_decay=0.5, min_lr=1e-4),
            dict(k_decay=2.0, cycle_limit=2)):
        yield dict(options, name="cosine"), timm_cycles(cosine, 60, **options)
    for options in (dict(), dict(warm, power=2.0, min_lr=1e-4),
                    dict(power=0.9, k_decay=1.5, cycle_limit=2, cycle_mul=2.0)):
        yield dict(options, name="polynomial"), timm_cycles(poly, 60, **options)
    for options in (dict(), dict(warm, min_lr=1e-4), dict(warm, warmup_prefix=True)):
        yield dict(options, name="linear"), timm_cycles(poly, 60, power=1.0, **options)
    for options in (dict(decay_steps=20, decay_rate=0.1),
                    dict(warm, decay_steps=13, decay_rate=0.5, warmup_prefix=True),
                    dict(warm, decay_steps=13, decay_rate=0.5)):
        args = dict(decay_t=options["decay_steps"], decay_rate=options["decay_rate"],
                    warmup_t=options.get("warmup_steps", 0), warmup_lr_init=options.get("warmup_lr", 0.0),
                    warmup_prefix=options.get("warmup_prefix", False))
        yield dict(options, name="step"), (StepLRScheduler, args)


def sgd(lr):
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)


def make_schedules():
    cases, lr = [], 0.01
    for config, (kind, arguments) in schedule_cases():
        optimizer = sgd(lr)
        scheduler = kind(optimizer, t_in_epochs=False, **arguments)
        lrs = [optimizer.param_groups[0]["lr"]]
        for update in range(1, 500):
            scheduler.step_update(update)
            lrs.append(optimizer.param_groups[0]["lr"])
        cases.append({"config": config, "source": kind.__name__, "lrs": lrs})
    for source, config, kind, arguments, steps in (
            ("CosineAnnealingLR", dict(name="cosine", min_lr=1e-4), torch.optim.lr_scheduler.CosineAnnealingLR,
             dict(T_max=60, eta_min=1e-4), 61),
            ("MultiStepLR", dict(name="multistep", milestones=[10, 11, 40], decay_rate=0.3),
             torch.optim.lr_scheduler.MultiStepLR, dict(milestones=[10, 11, 40], gamma=0.3), 100)):
        optimizer = sgd(lr)
        scheduler = kind(optimizer, **arguments)
        lrs = []
        for _ in range(steps):
            lrs.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        cases.append({"config": config, "source": source, "lrs": lrs})
    ema = []
    for options in (dict(decay=0.99), dict(decay=0.9998, use_warmup=True), dict(decay=0.7, use_warmup=True)):
        average = ModelEmaV3(torch.nn.Linear(1, 1), **options)
        ema.append({"options": options, "decays": [average.get_decay(step) for step in range(40)]})
    document = {"versions": VERSIONS, "lr": lr, "run_steps": 60, "cases": cases, "ema": ema}
    (OUT / "schedules.json").write_text(json.dumps(document) + "\n")


# Groups and ten steps -------------------------------------------------------------------------------------------------

VIT = dict(img_size=[16], patch_size=[4], in_chans=1, num_classes=5, embed_dim=24, depth=2, num_heads=3, mlp_ratio=2.0,
           norm_eps=1e-6, init_values=0.1, reg_tokens=1)


def build_vit():
    args = dict(VIT, img_size=16, patch_size=4)
    args.pop("norm_eps")
    return VisionTransformer(**args)


def make_param_groups():
    model = build_vit()
    model.patch_embed.proj.weight.requires_grad = False
    model.blocks[0].requires_grad_(False)
    names = {id(param): name for name, param in model.named_parameters()}
    no_decay = model.no_weight_decay()

    def as_dict(groups):
        return {names[id(param)]: [group.get("lr_scale", 1.0), group["weight_decay"]]
                for group in groups for param in group["params"]}

    flat = param_groups_weight_decay(model, 0.05, no_weight_decay_list=no_decay)
    layered = param_groups_layer_decay(model, 0.05, no_weight_decay_list=no_decay, layer_decay=0.7)
    floored = param_groups_layer_decay(
        model, 0.1, no_weight_decay_list=["blocks.1.attn.*"], layer_decay=0.5, min_scale=0.3)
    document = {
        "versions": VERSIONS, "vit": VIT, "no_weight_decay": sorted(no_decay),
        "frozen": [name for name, param in model.named_parameters() if not param.requires_grad],
        "cases": [
            {"weight_decay": 0.05, "no_weight_decay": sorted(no_decay), "layer_decay": 1.0, "min_scale": 0.0,
             "groups": as_dict(flat)},
            {"weight_decay": 0.05, "no_weight_decay": sorted(no_decay), "layer_decay": 0.7, "min_scale": 0.0,
             "groups": as_dict(layered)},
            {"weight_decay": 0.1, "no_weight_decay": ["blocks.1.attn.*"], "layer_decay": 0.5, "min_scale": 0.3,
             "groups": as_dict(floored)}]}
    (OUT / "param_groups.json").write_text(json.dumps(document, indent=1) + "\n")


def make_ten_steps():
    generator = torch.Generator().manual_seed(13)
    model = build_vit()
    with torch.no_grad():
        for name, param in model.named_parameters():
            scale = 0.3 if param.ndim == 1 else 1.2 / param[0].numel() ** 0.5
            noise = scale * normal(generator, *param.shape)
            param.copy_(noise + 1 if "norm" in name and name.endswith("weight") else noise)
    tensors = {f"start/{name}": param.detach().clone() for name, param in model.named_parameters()}
    images, labels = normal(generator, 10, 6, 1, 16, 16), torch.randint(0, 5, (10, 6), generator=generator)
    # The softmax does not feel a bias of all keys: its gradient is rounding noise, which an eps below it would blow up.
    config = dict(vit=VIT, eps=1e-5, lr=2e-3, weight_decay=0.05, layer_decay=0.8, betas=[0.9, 0.99], max_grad_norm=1.0,
                  warmup_steps=3, warmup_lr=1e-4, min_lr=1e-4, total_steps=8, ema_decay=0.9, label_smoothing=0.1)
    groups = param_groups_layer_decay(
        model, config["weight_decay"], no_weight_decay_list=model.no_weight_decay(), layer_decay=config["layer_decay"])
    optimizer = torch.optim.AdamW(groups, lr=config["lr"], betas=tuple(config["betas"]), eps=config["eps"])
    scheduler = CosineLRScheduler(
        optimizer, t_initial=config["total_steps"], lr_min=config["min_lr"], warmup_t=config["warmup_steps"],
        warmup_lr_init=config["warmup_lr"], t_in_epochs=False)
    average = ModelEmaV3(model, decay=config["ema_decay"], use_warmup=True)
    losses, norms = [], []
    for update in range(10):
        loss = F.cross_entropy(model(images[update]), labels[update], label_smoothing=config["label_smoothing"])
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), config["max_grad_norm"]).double())
        optimizer.step()
        average.update(model, step=update + 1)
        scheduler.step_update(update + 1)
        losses.append(loss.detach().double())
    tensors.update({f"final/{name}": param.detach() for name, param in model.named_parameters()})
    tensors.update({f"ema/{name}": param.detach() for name, param in average.module.named_parameters()})
    tensors.update(images=images, labels=labels, losses=torch.stack(losses), grad_norms=torch.stack(norms))
    save_file({name: value.contiguous() for name, value in tensors.items()}, OUT / "ten_steps.safetensors",
              {"config": json.dumps(config), **VERSIONS})


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_optimizers()
    make_clip()
    make_schedules()
    make_param_groups()
    make_ten_steps()
