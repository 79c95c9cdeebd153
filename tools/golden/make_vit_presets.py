"""Goldens for fovea/models/vit_sizes.cc: names and shapes of the parameters of every preset, from timm on the meta device.

Blocks are alike, which is checked here, so that one is kept: "blocks.*.". Writes tests/golden/vit_presets.json.

    python tools/golden/make_vit_presets.py NAME...      names as `fovea list models` prints them
"""
import json
import pathlib
import re
import sys

import timm

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "vit_presets.json"


ACTIVATIONS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "SiLU": "silu"}


def describe(name):
    import torch
    with torch.device("meta"):
        model = timm.create_model(name)
    parameters = {k: list(v.shape) for k, v in model.named_parameters()}
    kept, blocks = {}, {}
    for key, shape in parameters.items():
        match = re.fullmatch(r"blocks\.(\d+)\.(.*)", key)
        if match:
            blocks.setdefault(int(match[1]), {})[match[2]] = shape
            key = f"blocks.*.{match[2]}"
        kept[key] = shape
    assert all(block == blocks[0] for block in blocks.values()), name
    assert sorted(blocks) == list(range(len(blocks))), name
    cfg = timm.get_pretrained_cfg(name)
    block = model.blocks[0]
    parts = [module for _, module in block.named_modules()]
    attention = next(part for part in parts if hasattr(part, "num_heads"))
    norm = next(part for part in parts if isinstance(part, (timm.layers.LayerNorm, timm.layers.RmsNorm)))
    act = next(part for part in parts if type(part).__name__ in ACTIVATIONS)
    start = next((part.init_values for part in parts if getattr(part, "init_values", None) is not None), None)
    return {
        "depth": len(blocks),
        "count": sum(p.numel() for p in model.parameters()),
        "parameters": kept,
        # What the shapes do not show, as Fovea's config has it.
        "config": {
            "num_classes": model.num_classes,
            "num_heads": attention.num_heads,
            "norm_eps": norm.eps,
            "act_layer": ACTIVATIONS[type(act).__name__],
            "init_values": start,
            "global_pool": model.global_pool,
            "no_embed_class": model.no_embed_class,
            "pool_include_prefix": model.pool_include_prefix,
            "dynamic_img_size": model.dynamic_img_size,
        },
        "input": {
            "img_size": list(cfg.input_size[1:]), "mean": list(cfg.mean), "std": list(cfg.std),
            "crop_pct": cfg.crop_pct, "interpolation": cfg.interpolation,
        },
        "no_weight_decay": sorted(model.no_weight_decay() & set(parameters)),
    }


if __name__ == "__main__":
    rows = {name: describe(name) for name in sys.argv[1:]}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in rows.items())
    OUT.write_text("{\n" + lines + "\n}\n")
    print(f"{OUT.name}: {len(rows)} presets, timm {timm.__version__}, {OUT.stat().st_size} bytes")
