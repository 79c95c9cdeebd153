"""Goldens for the weights at step 0: moments of every parameter under each of timm's schemes, and Philox draws.

Writes tests/golden/vit_init.json: per case the config and per parameter the mean, standard deviation and kurtosis over
several seeds of timm (a constant: its value), and the first draws of a stream from scipy's normal quantile.

    python tools/golden/make_vit_init.py
"""
import json
import pathlib

import numpy as np
import timm
import torch
from scipy import stats

import make_vit
import philox

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "vit_init.json"
NUM_SEEDS = 4
SIZE = dict(img_size=[32], patch_size=[8], in_chans=3, num_classes=30, embed_dim=96, depth=1, num_heads=3,
            mlp_ratio=2.0, norm_eps=1e-6)
POOLED = dict(SIZE, class_token=False, reg_tokens=2, global_pool="map", init_values=0.25)
SPLIT = dict(SIZE, mlp_layer="swiglu", act_layer="silu")
PACKED = dict(SIZE, mlp_layer="swiglu_packed", act_layer="silu")
CASES = {
    "timm": dict(POOLED, weight_init=""),
    "jax": dict(POOLED, weight_init="jax"),
    "jax_nlhb": dict(SIZE, weight_init="jax_nlhb"),
    "moco": dict(POOLED, weight_init="moco"),
    "timm_packed": dict(PACKED, weight_init=""),
    "jax_packed": dict(PACKED, weight_init="jax"),
    "moco_split": dict(SPLIT, weight_init="moco"),
    "jax_split": dict(SPLIT, weight_init="jax"),
    "distilled": dict(SIZE, distilled=True, weight_init=""),
    "res_post_norm": dict(SIZE, block_layer="res_post_norm", init_values=0.25, weight_init=""),
    "parallel_things": dict(SIZE, block_layer="parallel_things", init_values=0.25, weight_init="jax"),
    "parallel_scaling": dict(SIZE, block_layer="parallel_scaling", qkv_bias=False, weight_init="jax"),
    "parallel_scaling_moco": dict(SIZE, block_layer="parallel_scaling", init_values=0.25, weight_init="moco"),
    "diff": dict(SIZE, attn_layer="diff", weight_init="moco"),
    "diff_parallel_scaling": dict(SIZE, attn_layer="diff", block_layer="parallel_scaling", qkv_bias=False, weight_init=""),
    "depth_scaled": dict(SIZE, depth=2, fix_init=True, weight_init=""),
}


def moments(samples):
    """Of a list of equal tensors; the halves of rows apart, since a packed gate fills them differently."""
    values = torch.stack(samples).double()
    if values.std() == 0:
        return {"constant": values.flatten()[0].item()}
    centred = values - values.mean()
    return {"mean": values.mean().item(), "std": values.std().item(),
            "kurtosis": ((centred ** 4).mean() / (centred ** 2).mean() ** 2).item()}


def describe(config):
    drawn = {}
    for seed in range(NUM_SEEDS):
        torch.manual_seed(seed)
        model, _ = make_vit.build(config)
        for name, parameter in model.named_parameters():
            half = parameter.shape[0] // 2
            is_packed = ".mlp.fc1." in name and config.get("mlp_layer") == "swiglu_packed"
            parts = {name: parameter} if not is_packed else {
                name + "[first]": parameter[:half], name + "[second]": parameter[half:]}
            for part, values in parts.items():
                drawn.setdefault(part, []).append(values.detach())
    written = dict(config, weight_init=config["weight_init"] or "timm")
    return {"config": written, "parameters": {name: moments(samples) for name, samples in drawn.items()}}


def draws(seed, name, count):
    words = philox.drop_words(philox.philox_key(seed, "init." + name), 0, [0], count)[0]
    uniform = (words.astype(np.float64) + 0.5) / 2**32
    tail = stats.norm.cdf(-2.0)
    return {
        "seed": seed, "name": name,
        "normal": (3.0 * stats.norm.ppf(uniform)).tolist(),
        "truncated_normal": (3.0 * stats.norm.ppf(tail + uniform * (1 - 2 * tail))).tolist(),
        "uniform": (3.0 * (2.0 * uniform - 1.0)).tolist(),
    }


if __name__ == "__main__":
    golden = {"made_by": f"timm {timm.__version__}", "num_seeds": NUM_SEEDS}
    golden["draws"] = draws(11, "blocks.0.norm1.weight", 4099)
    for kind in ("normal", "truncated_normal", "uniform"):
        values = golden["draws"][kind]
        golden["draws"][kind] = values[:9] + values[4090:]
    golden["cases"] = {name: describe(config) for name, config in CASES.items()}
    OUT.write_text(json.dumps(golden, indent=1) + "\n")
    print(f"{OUT.name}: {len(CASES)} cases, {OUT.stat().st_size} bytes")
