"""Golden for layer decay: timm's layer number of every parameter of a few models (param_groups_layer_decay).

Writes tests/golden/vit_layers.json.

    python tools/golden/make_vit_layers.py
"""
import json
import pathlib

import timm
import torch
from timm.models import group_parameters

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "vit_layers.json"
NAMES = ["vit_tiny_patch16_224", "vit_base_patch16_clip_224", "vit_base_patch16_siglip_256", "vit_small_patch14_reg4_dinov2",
         "vit_wee_patch16_reg1_gap_256", "deit_tiny_distilled_patch16_224"]

if __name__ == "__main__":
    rows = {}
    for name in NAMES:
        with torch.device("meta"):
            model = timm.create_model(name)
        layers = group_parameters(model, model.group_matcher(coarse=False), reverse=True)
        rows[name] = {key: layers[key] for key, _ in model.named_parameters()}
    OUT.write_text(json.dumps(rows, indent=0) + "\n")
    print(f"{OUT.name}: {len(rows)} models, timm {timm.__version__}, {OUT.stat().st_size} bytes")
