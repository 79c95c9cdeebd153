"""Goldens for fovea/recipe_import/timm_tags.cc: preprocessing and classes of every tag of the models in vit_presets.json, from timm.

Writes tests/golden/timm_tags.json: "model.tag", and "model" for timm's default tag, to what train.py takes where no flag says otherwise.
With --rows it prints the rows of the table instead, with --tags those of fovea/models/timm_weights.cc: what lies on the hub.

    python tools/golden/make_timm_tags.py [--rows | --tags]
"""
import json
import pathlib
import sys

import timm
from timm.data import resolve_data_config

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
PIXELS = {(0.0, 0.0, 0.0): "kUnit", (0.5, 0.5, 0.5): "kHalf", (0.485, 0.456, 0.406): "kImageNet", (0.48145466, 0.4578275, 0.40821073): "kClip"}


def entry(name):
    cfg = timm.get_pretrained_cfg(name)
    data = resolve_data_config({}, pretrained_cfg=cfg.to_dict())
    assert PIXELS[tuple(data["mean"])] and data["crop_mode"] in ("center", "squash"), name
    return {
        "img_size": list(data["input_size"][1:]), "mean": list(data["mean"]), "std": list(data["std"]), "crop_pct": data["crop_pct"],
        "crop_mode": data["crop_mode"], "interpolation": data["interpolation"], "num_classes": cfg.num_classes,
    }


def all_entries():
    presets = json.loads((GOLDEN / "vit_presets.json").read_text())
    tagged = timm.list_pretrained() + [n for n in timm.list_models(include_tags=True) if "." in n]
    entries = {}
    for name in presets:
        entries[name] = entry(name)
        for full in sorted({n for n in tagged if n.startswith(name + ".")}):
            entries[full] = entry(full)
    return entries


def rows(entries):
    for full, found in entries.items():
        name, _, tag = full.partition(".")
        plain = {**entries[name], "crop_mode": "center"}
        assert found["img_size"] == plain["img_size"] and found["interpolation"] == plain["interpolation"], full
        if found == plain:
            continue
        same = (found["mean"], found["std"]) == (plain["mean"], plain["std"])
        pixels = "kSame" if same else PIXELS[tuple(found["mean"])]
        crop = 0 if found["crop_pct"] == plain["crop_pct"] else found["crop_pct"]
        classes = -1 if found["num_classes"] == plain["num_classes"] else found["num_classes"]
        print(f'    {{"{name}", "{tag}", Pixels::{pixels}, {crop:g}, {str(found["crop_mode"] == "squash").lower()}, {classes}}},')


def tag_rows(entries):
    """Of each preset its tags with weights on the hub, timm's default first."""
    for name in (full for full in entries if "." not in full):
        tags = [full.partition(".")[2] for full in entries if full.startswith(name + ".")]
        configs = {tag: timm.get_pretrained_cfg(f"{name}.{tag}") for tag in tags}
        tags = [tag for tag in tags if configs[tag].hf_hub_id]
        tags.sort(key=lambda tag: tag != timm.get_pretrained_cfg(name).tag)
        for tag in tags:
            assert configs[tag].hf_hub_id == f"timm/{name.replace('_quickgelu', '')}.{tag}", (name, tag)
        if tags:
            print(f'    {{"{name}", "{" ".join(tags)}"}},')


if __name__ == "__main__":
    made = all_entries()
    if "--tags" in sys.argv[1:]:
        tag_rows(made)
    elif "--rows" in sys.argv[1:]:
        rows(made)
    else:
        text = ",\n".join(f"{json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}" for name, row in made.items())
        (GOLDEN / "timm_tags.json").write_text("{\n" + text + "\n}\n")
        print(f"{len(made)} names, timm {timm.__version__}")
