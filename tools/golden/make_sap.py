"""Goldens for SAP: the encoder of make_adaptive_vit.py, its tokens on a square or a cube, a transposed convolution with
kernel and stride p without a bias, and a convolution of 1 x 1, as UCF-VIT's SAP decodes.

Needs what make_adaptive_vit.py needs.

    python tools/golden/make_sap.py
"""
import json

import torch
from safetensors.torch import save_file
from torch import nn

from make_adaptive_vit import DEFAULTS, OUT, AdaptiveViT, random_patches

CASES = {
    "2d": dict(pos_embed="size_and_center", patch_norm=False),
    "3d": dict(pos_embed="learn", img_size=[16, 16, 16], fixed_length=8, in_chans=1, depth=1, embed_dim=16),
}
NUM_CLASSES, WIDTH = 3, 6


def make(name, changes):
    torch.manual_seed(11)
    config = {**DEFAULTS, **changes, "class_token": False, "num_classes": 0, "global_pool": ""}
    d, p, length, dim = len(config["img_size"]), config["patch_size"][0], config["fixed_length"], config["embed_dim"]
    side = round(length ** (1 / d))
    encoder = AdaptiveViT(config)
    up = (nn.ConvTranspose2d if d == 2 else nn.ConvTranspose3d)(dim, WIDTH, p, stride=p, bias=False)
    head = (nn.Conv2d if d == 2 else nn.Conv3d)(WIDTH, NUM_CLASSES, 1)
    model = nn.ModuleList([encoder, up, head]).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2 + 0.1)
    tokens, sizes, centers, padding = random_patches(config)
    sizes, centers = sizes.float(), centers.float()
    x, _ = encoder.encode(tokens, sizes.double(), centers.double(), padding)
    grid = x.transpose(1, 2).unflatten(2, [side] * d)  # [B, D, s, s]
    y = head(up(grid))  # [B, K, s p, s p]
    for axis in range(d):  # [B, K, s, p, s, p]
        y = y.unflatten(2 + 2 * axis, (side, p))
    order = [0, 1] + [2 + 2 * i for i in range(d)] + [3 + 2 * i for i in range(d)]
    logits = y.permute(order).reshape(x.shape[0], NUM_CLASSES, length, p ** d)
    loss = (logits.square() * torch.linspace(0.5, 1.5, logits.numel()).view_as(logits)).mean()
    loss.backward()
    tensors = {"tokens": tokens, "sizes": sizes, "centers": centers, "padding": padding.to(torch.uint8),
               "logits": logits.detach(), "loss": loss.detach()}

    def put(group, pick):
        for key, parameter in encoder.vit.named_parameters():
            tensors[f"{group}/encoder.{key}"] = pick(parameter)
        tensors[f"{group}/up"] = pick(up.weight).movedim(0, -1).flatten(1, d)  # [E, S, D]
        tensors[f"{group}/head.weight"] = pick(head.weight).flatten(1)
        tensors[f"{group}/head.bias"] = pick(head.bias)

    put("weights", lambda parameter: parameter.detach())
    put("gradients", lambda parameter: parameter.grad)
    encoder_keys = {k: v for k, v in config.items() if k not in ("num_classes", "global_pool")}
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT / f"sap_{name}.safetensors",
              {"config": json.dumps({"encoder": encoder_keys, "num_classes": NUM_CLASSES, "decoder_dim": WIDTH})})
    print(name, sum(k.startswith("gradients/") for k in tensors), float(loss.detach()))


for case in CASES.items():
    make(*case)
