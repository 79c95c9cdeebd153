"""Goldens for a ViT on adaptive patches: timm's blocks, norms, pooling and head with attention masks for the padding,
behind UCF-VIT's embedding (LayerNorm, Linear, LayerNorm) and position (gelu of a Linear of size and centre).

Each file holds the config (metadata), state_dict ("weights/"), the input, logits, loss and every gradient, in float64.
Weights are random and never zero or one. Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_adaptive_vit.py
"""
import json
import pathlib

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from torch import nn

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
DEFAULTS = dict(patching="adaptive", img_size=[32, 48], patch_size=[4], in_chans=2, num_classes=5, embed_dim=24, depth=2,
                num_heads=2, mlp_ratio=2.0, norm_eps=1e-6, fixed_length=9, patch_norm=True)
CASES = {
    "learn": dict(pos_embed="learn", reg_tokens=1),
    "pixels": dict(pos_embed="size_and_center", pos_in_pixels=True, class_token=False, global_pool="avg"),
    "shares": dict(pos_embed="size_and_center", global_pool="avgmax", fc_norm=False, patch_norm=False),
    "volume": dict(pos_embed="size_and_center", img_size=[16, 32, 24], class_token=False, global_pool="map",
                   qk_norm=True, in_chans=1),
}


class AdaptiveViT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.sides = config["img_size"][::-1]  # x, y(, z)
        dim, values = config["embed_dim"], config["patch_size"][0] ** len(self.sides) * config["in_chans"]
        length = config["fixed_length"]
        keys = {k: config[k] for k in ("num_classes", "embed_dim", "depth", "num_heads", "mlp_ratio", "global_pool",
                                       "class_token", "reg_tokens", "qk_norm", "fc_norm") if k in config}
        self.vit = VisionTransformer(img_size=(length, 1), patch_size=1, in_chans=1, **keys)
        self.vit.patch_embed = nn.Module()
        self.vit.patch_embed.proj = nn.Linear(values, dim)
        if config["patch_norm"]:
            self.vit.patch_embed.norm1 = nn.LayerNorm(values)
            self.vit.patch_embed.norm2 = nn.LayerNorm(dim)
        self.learns = config["pos_embed"] == "learn"
        if not self.learns:
            self.vit.pos_embed = None
            self.vit.adaptive_pos_embed = nn.Module()
            self.vit.adaptive_pos_embed.fc = nn.Linear(1 + len(self.sides), dim)

    def encode(self, tokens, sizes, centers, padding):
        """-> [B, N, D] after the final norm, and [B, N] what is no padding"""
        vit = self.vit
        x = tokens.permute(0, 2, 3, 1).flatten(2)  # 'b c s p -> b s (p c)'
        if self.config["patch_norm"]:
            x = vit.patch_embed.norm2(vit.patch_embed.proj(vit.patch_embed.norm1(x)))
        else:
            x = vit.patch_embed.proj(x)
        if not self.learns:
            where = torch.cat([sizes[:, 0, :, None], centers[:, 0]], -1)
            if not self.config.get("pos_in_pixels", False):
                where = where / torch.tensor([max(self.sides)] + list(self.sides), dtype=where.dtype)
            x = x + F.gelu(vit.adaptive_pos_embed.fc(where))
        prefix = [t.expand(x.shape[0], -1, -1) for t in (vit.cls_token, vit.reg_token) if t is not None]
        x = torch.cat(prefix + [x], 1)
        if self.learns:
            x = x + vit.pos_embed
        real = torch.cat([torch.ones(x.shape[0], vit.num_prefix_tokens, dtype=torch.bool), ~padding[:, 0]], 1)
        mask = real[:, None, None, :].expand(-1, -1, x.shape[1], -1)
        for block in vit.blocks:
            x = block(x, attn_mask=mask)
        x = vit.norm(x)
        return x, real

    def forward(self, tokens, sizes, centers, padding):
        vit = self.vit
        x, real = self.encode(tokens, sizes, centers, padding)
        pool, first = self.config.get("global_pool", "token"), vit.num_prefix_tokens
        rows = []
        for sample, is_real in zip(x, real):  # one by one: what is left out is not there at all
            kept = sample[first:][is_real[first:]]
            if pool == "token":
                rows.append(sample[0])
            elif pool == "map":
                rows.append(vit.attn_pool(kept[None])[0])
            else:
                rows.append(kept.mean(0) if pool == "avg" else 0.5 * (kept.amax(0) + kept.mean(0)))
        return vit.head(vit.fc_norm(torch.stack(rows)))


def random_patches(config):
    length, d = config["fixed_length"], len(config["img_size"])
    values = config["patch_size"][0] ** d
    tokens = torch.randn(3, config["in_chans"], length, values).double()
    sizes = torch.randint(1, 5, (3, 1, length)).double() * 4
    centers = torch.rand(3, 1, length, d).double() * torch.tensor(config["img_size"][::-1])
    padding = torch.zeros(3, 1, length, dtype=torch.bool)
    padding[1, :, 6:] = True
    padding[2, :, 1:] = True
    return tokens, sizes, centers, padding


def make(name, changes):
    torch.manual_seed(7)
    config = {**DEFAULTS, **changes}
    model = AdaptiveViT(config).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2 + 0.1)
    tokens, sizes, centers, padding = random_patches(config)
    labels = torch.tensor([0, 3, 4])
    logits = model(tokens, sizes, centers, padding)
    loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
    loss.backward()
    tensors = {"tokens": tokens, "sizes": sizes.float(), "centers": centers.float(), "padding": padding.to(torch.uint8),
               "labels": labels, "logits": logits.detach(), "loss": loss.detach()}
    if config["pos_embed"] != "learn":  # they go in as float32
        model.zero_grad()
        logits = model(tokens, sizes.float().double(), centers.float().double(), padding)
        loss = F.cross_entropy(logits, labels, label_smoothing=0.1)
        loss.backward()
        tensors.update(logits=logits.detach(), loss=loss.detach())
    for key, parameter in model.vit.named_parameters():
        tensors["weights/" + key] = parameter.detach()
        tensors["gradients/" + key] = parameter.grad
    save_file({k: v.contiguous() for k, v in tensors.items()}, OUT / f"adaptive_vit_{name}.safetensors",
              {"config": json.dumps(config)})
    print(name, sum(k.startswith("gradients/") for k in tensors), float(loss.detach()))


if __name__ == "__main__":
    for case in CASES.items():
        make(*case)
