"""Goldens for fovea/models/weights: a timm checkpoint by timm's own writer, and what timm makes of it elsewhere.

tests/golden/vit_weights.safetensors is the state_dict alone; vit_weights_adapted.safetensors holds its position
embedding on other grids and its patch projection for other numbers of channels.

    python tools/golden/make_vit_weights.py
"""
import pathlib

import torch
from safetensors.torch import save_file
from timm.layers import resample_abs_pos_embed
from timm.models import adapt_input_conv
from timm.models.vision_transformer import VisionTransformer

import make_vit

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

if __name__ == "__main__":
    model = VisionTransformer(img_size=32, patch_size=8, num_classes=5, embed_dim=16, depth=2, num_heads=2, mlp_ratio=2,
                              init_values=1e-5, reg_tokens=1)
    make_vit.randomise(model, torch.Generator().manual_seed(0))
    weights = model.state_dict()
    save_file(weights, OUT / "vit_weights.safetensors", metadata={"format": "pt"})
    adapted = {
        "pos_embed_48": resample_abs_pos_embed(weights["pos_embed"], (6, 6), num_prefix_tokens=2),
        "pos_embed_24x40": resample_abs_pos_embed(weights["pos_embed"], (3, 5), num_prefix_tokens=2),
        "in_chans_1": adapt_input_conv(1, weights["patch_embed.proj.weight"]),
        "in_chans_4": adapt_input_conv(4, weights["patch_embed.proj.weight"]),
    }
    save_file({k: v.contiguous() for k, v in adapted.items()}, OUT / "vit_weights_adapted.safetensors")
    print(f"{len(weights)} weights, {len(adapted)} adapted")
