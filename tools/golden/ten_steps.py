"""Ten optimizer steps of a tiny timm ViT with a cosine schedule beyond its end and clipping: what the makers of single
optimizers share."""
import json
import pathlib

import torch
import torch.nn.functional as F
from make_optim import VIT, build_vit, normal
from safetensors.torch import save_file
from timm.scheduler import CosineLRScheduler

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"


def make(path, config, make_step, moments, versions, seed):
    """make_step(settings, config): settings are (name, parameter, weight decay); gives step(lr) and a function that
    gives the state of each parameter. moments: the names of state that are written."""
    generator = torch.Generator().manual_seed(seed)
    model = build_vit()
    with torch.no_grad():
        for name, param in model.named_parameters():
            scale = 0.3 if param.ndim == 1 else 1.2 / param[0].numel() ** 0.5
            noise = scale * normal(generator, *param.shape)
            param.copy_(noise + 1 if "norm" in name and name.endswith("weight") else noise)
    tensors = {f"start/{name}": param.detach().clone() for name, param in model.named_parameters()}
    images, labels = normal(generator, 10, 6, 1, 16, 16), torch.randint(0, 5, (10, 6), generator=generator)
    config = dict(config, vit=VIT, max_norm=1.0, warmup_steps=3, warmup_lr=1e-4, min_lr=1e-4, total_steps=8)
    no_decay = model.no_weight_decay()
    step, state = make_step([(name, param, 0.0 if param.ndim < 2 or name in no_decay else config["weight_decay"])
                             for name, param in model.named_parameters()], config)
    clock = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config["lr"])
    scheduler = CosineLRScheduler(
        clock, t_initial=config["total_steps"], lr_min=config["min_lr"], warmup_t=config["warmup_steps"],
        warmup_lr_init=config["warmup_lr"], t_in_epochs=False)
    losses, norms = [], []
    for update in range(10):
        loss = F.cross_entropy(model(images[update]), labels[update])
        model.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), config["max_norm"]).double())
        step(clock.param_groups[0]["lr"])
        scheduler.step_update(update + 1)
        losses.append(loss.detach().double())
    for name, param in model.named_parameters():
        tensors[f"final/{name}"] = param.detach()
        for moment in moments:
            if moment in state()[param]:
                tensors[f"state/{moment}/{name}"] = state()[param][moment]
    tensors.update(images=images, labels=labels, losses=torch.stack(losses), grad_norms=torch.stack(norms))
    save_file({name: value.contiguous() for name, value in tensors.items()}, OUT / path,
              {"config": json.dumps(config), **versions})
