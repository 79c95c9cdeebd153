"""Goldens for fovea/train/run/phases.h: a linear probe on a frozen timm ViT, then fine-tuning of all of it from the probe, with
an eighth of the learning rate, layer decay and logits divided by 8, as torch and timm train it. Every batch is the whole set,
so that the order of samples does not matter. In float64.

Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_phases.py
"""
import json
import pathlib

import timm
import torch
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_layer_decay

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
COUNT, CLASSES, STEPS, LR, DECAY, SCALE = 20, 10, 6, 1e-2, 0.75, 0.125
EPS = 1e-5  # large, so that the bias of keys, whose gradient is zero but for rounding, stays where it is
MODEL = dict(img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=2, num_classes=CLASSES, init_values=1e-5,
             reg_tokens=4, no_embed_class=True)


def data(generator):
    labels = torch.arange(COUNT) % CLASSES
    images = torch.randint(0, 156, (COUNT, 3, 32, 32), generator=generator, dtype=torch.uint8)
    for i, label in enumerate(labels):
        images[i, :, 16 * (label % 4 // 2):16 * (label % 4 // 2) + 16, 16 * (label % 2):16 * (label % 2) + 16] += 60
    return images, labels


def pixels(images):
    return (images.double() / 255 - 0.5) / 0.5


def train(parameters, logits_of, labels, lr):
    optimizer = torch.optim.AdamW(parameters, lr=lr, eps=EPS, weight_decay=0.0)
    if "lr_scale" in optimizer.param_groups[0]:
        for group in optimizer.param_groups:
            group["lr"] = lr * group["lr_scale"]
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits_of(), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def main():
    generator = torch.Generator().manual_seed(3)
    images, labels = data(generator)
    model = VisionTransformer(**MODEL).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            scale = 0.3 if "ls" in name or name.endswith("bias") else 0.2
            parameter.copy_((noise * scale + (1.0 if "norm" in name and name.endswith("weight") else 0.0)).float())
    tensors = {f"start/{name}": p.detach().float().clone() for name, p in model.named_parameters()}
    x = pixels(images)

    model.eval()
    with torch.no_grad():
        features = model.forward_head(model.forward_features(x), pre_logits=True)
    tensors["features"] = features.clone()
    probe_losses = train(list(model.head.parameters()), lambda: model.head(features), labels, LR)
    tensors |= {f"probe/{name}": p.detach().clone() for name, p in model.head.named_parameters(prefix="head")}

    groups = param_groups_layer_decay(model, weight_decay=0.0, layer_decay=DECAY,
                                      no_weight_decay_list=model.no_weight_decay())
    tune_losses = train(groups, lambda: SCALE * model(x), labels, LR / 8)
    tensors |= {f"fine_tune/{name}": p.detach().float().clone() for name, p in model.named_parameters()}
    tensors["images"], tensors["labels"] = images.contiguous(), labels.to(torch.int64)

    config = {"model": MODEL | {"img_size": [32], "patch_size": [8]}, "steps": STEPS, "lr": LR, "eps": EPS, "layer_decay": DECAY, "logits_scale": SCALE,
              "losses": {"probe": probe_losses, "fine_tune": tune_losses}}
    versions = {"torch": torch.__version__, "timm": timm.__version__, "maker": "tools/golden/make_phases.py"}
    save_file({name: t.contiguous() for name, t in tensors.items()}, OUT / "phases.safetensors",
              metadata={"config": json.dumps(config), "versions": json.dumps(versions)})
    print(probe_losses, tune_losses, (OUT / "phases.safetensors").stat().st_size)


if __name__ == "__main__":
    main()
