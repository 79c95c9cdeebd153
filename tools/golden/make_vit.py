"""Goldens for fovea/models/vit: timm's VisionTransformer on small configurations that together touch every option.

Each file holds the config (metadata), timm's state_dict ("weights/"), the input, every named intermediate, logits, loss
and every gradient. Weights are random and never zero or one, so that a swapped q and k, or a transposed square
weight, shows. Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_vit.py [case ...]
"""
import functools
import json
import pathlib
import sys

import numpy as np
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.layers import DropPath, LayerNorm, Mlp, PatchDropout, RmsNorm, SwiGLU, SwiGLUPacked
from timm.models import vision_transformer as timm_vit
from timm.models.deit import VisionTransformerDistilled
from torch import nn

import philox
import pos_embed

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
SEED, STEP, ROWS = 3, 7, [5, 2**33 + 1]  # of the training-mode cases
SMOOTHING = 0.1

ACTIVATIONS = {"gelu": "gelu", "gelu_tanh": "gelu_tanh", "quick_gelu": "quick_gelu", "silu": "silu", "relu": "relu"}
NORMS = {"layer_norm": LayerNorm, "rms_norm": RmsNorm}
BLOCKS = {
    "pre_norm": timm_vit.Block, "res_post_norm": timm_vit.ResPostBlock, "parallel_things": timm_vit.ParallelThingsBlock,
    "parallel_scaling": timm_vit.ParallelScalingBlock}
MLPS = {"mlp": Mlp, "swiglu_packed": SwiGLUPacked, "swiglu": SwiGLU}
DEFAULTS = dict(
    img_size=[32], patch_size=[8], in_chans=3, num_classes=10, global_pool="token", embed_dim=32, depth=2, num_heads=2,
    mlp_ratio=2.0, norm_eps=1e-6)
EMBED = dict(embed_dim=24, num_heads=2, depth=1)  # small enough for float64
BLOCK = dict(EMBED, img_size=[24], in_chans=1)

CASES = {
    "base": dict(),
    "base_f64": dict(EMBED, dtype="float64"),
    "registers_average": dict(
        class_token=False, global_pool="avg", reg_tokens=2, no_embed_class=True, init_values=0.1, qkv_bias=False,
        act_layer="gelu_tanh"),
    "clip": dict(pre_norm=True, act_layer="quick_gelu", norm_eps=1e-5, num_classes=0),
    "siglip": dict(class_token=False, global_pool="map", img_size=[32, 16], patch_size=[8, 4], act_layer="gelu_tanh"),
    "dinov2_giant": dict(
        EMBED, mlp_layer="swiglu_packed", act_layer="silu", init_values=0.5, qk_norm=True, reg_tokens=3,
        no_embed_class=True, num_heads=3, dtype="float64"),
    "split_swiglu": dict(
        mlp_layer="swiglu", act_layer="silu", norm_layer="rms_norm", proj_bias=False, scale_attn_norm=True,
        scale_mlp_norm=True, norm_eps=1e-5),
    "scaled_norms": dict(
        EMBED, scale_attn_norm=True, scale_mlp_norm=True, qk_norm=True, global_pool="avgmax", dtype="float64"),
    "average_and_maximum": dict(EMBED, global_pool="avgmax", pool_include_prefix=True, fc_norm=False),
    "maximum": dict(EMBED, global_pool="max", reg_tokens=1, act_layer="relu", final_norm=True),
    "map_with_prefix": dict(EMBED, global_pool="map", pool_include_prefix=True, reg_tokens=1, fc_norm=True),
    "tokens": dict(EMBED, global_pool="", final_norm=False, pos_embed="none", depth=2),
    "dynamic": dict(EMBED, dynamic_img_size=True, input_size=[48, 40]),
    "dynamic_padded": dict(
        EMBED, dynamic_img_size=True, dynamic_img_pad=True, input_size=[29, 43], no_embed_class=True),
    "dynamic_bilinear": dict(EMBED, dynamic_img_size=True, input_size=[24, 40], pos_embed_interp="bilinear"),
    "dynamic_zoom": dict(EMBED, dynamic_img_size=True, input_size=[56, 24], pos_embed_interp="zoom"),
    "dynamic_dinov2": dict(EMBED, dynamic_img_size=True, input_size=[56, 40], pos_embed_interp="dinov2"),
    "cropped": dict(EMBED, img_size=[30, 35], crop_to_patches=True),
    "sincos": dict(EMBED, pos_embed="sincos", img_size=[16, 24]),
    "volume": dict(
        EMBED, img_size=[8, 16, 12], patch_size=[4, 8, 4], in_chans=2, class_token=False, global_pool="avg"),
    "volume_sincos": dict(EMBED, img_size=[8, 16, 12], patch_size=[4], in_chans=1, pos_embed="sincos", reg_tokens=1),
    "volume_dynamic": dict(
        EMBED, img_size=[8, 8, 8], patch_size=[4], in_chans=1, dynamic_img_size=True, input_size=[12, 8, 16]),
    "pre_logits": dict(EMBED, representation_size=20, in_chans=1),
    "distilled": dict(EMBED, distilled=True),
    "drops": dict(
        EMBED, depth=2, train=True, drop_rate=0.25, pos_drop_rate=0.125, patch_drop_rate=0.25, proj_drop_rate=0.125,
        attn_drop_rate=0.25, drop_path_rate=0.5, init_values=0.5, reg_tokens=1),
    "drops_gated": dict(
        EMBED, train=True, dtype="float64", class_token=False, global_pool="avg", mlp_layer="swiglu", act_layer="silu",
        patch_drop_rate=0.5, proj_drop_rate=0.25, attn_drop_rate=0.125, drop_rate=0.125, depth=2, drop_path_rate=0.25,
        img_size=[16], patch_size=[4]),
    "res_post_norm": dict(BLOCK, block_layer="res_post_norm", depth=2, dtype="float64", qkv_bias=False,
                          class_token=False, global_pool="avg"),
    "parallel_things": dict(BLOCK, block_layer="parallel_things", num_parallel=3, depth=2, init_values=0.5),
    "parallel_scaling": dict(
        BLOCK, block_layer="parallel_scaling", depth=2, dtype="float64", qkv_bias=False, qk_norm=True, pre_norm=True,
        no_embed_class=True, norm_layer="rms_norm"),
    "parallel_scaling_biases": dict(BLOCK, block_layer="parallel_scaling", init_values=0.5, act_layer="relu"),
    "diff": dict(BLOCK, attn_layer="diff", depth=2, dtype="float64", init_values=0.5, reg_tokens=1, no_embed_class=True),
    "diff_norms": dict(
        BLOCK, attn_layer="diff", depth=2, qk_norm=True, scale_attn_norm=True, qkv_bias=False, block_layer="res_post_norm"),
    "diff_parallel_scaling": dict(
        BLOCK, attn_layer="diff", block_layer="parallel_scaling", depth=2, dtype="float64", qkv_bias=False, qk_norm=True,
        init_values=0.5),
    "diff_parallel_things": dict(BLOCK, attn_layer="diff", block_layer="parallel_things", mlp_layer="swiglu", act_layer="silu"),
    "aimv2": dict(
        BLOCK, embed_norm=True, class_token=False, fc_norm=False, global_pool="avg", qkv_bias=False, proj_bias=False,
        act_layer="silu", norm_layer="rms_norm", norm_eps=1e-5, mlp_layer="swiglu", depth=2, dtype="float64"),
    "drops_res_post_norm": dict(
        BLOCK, block_layer="res_post_norm", depth=2, train=True, proj_drop_rate=0.125, attn_drop_rate=0.25,
        drop_path_rate=0.5),
    "drops_parallel_things": dict(
        BLOCK, block_layer="parallel_things", depth=2, train=True, proj_drop_rate=0.125,
        attn_drop_rate=0.25, drop_path_rate=0.5, init_values=0.5),
    "drops_parallel_scaling": dict(
        BLOCK, block_layer="parallel_scaling", depth=2, train=True, proj_drop_rate=0.125, attn_drop_rate=0.25,
        drop_path_rate=0.5, init_values=0.5),
    "drops_diff": dict(
        BLOCK, attn_layer="diff", depth=2, train=True, dtype="float64", proj_drop_rate=0.125, attn_drop_rate=0.25,
        drop_path_rate=0.5),
    "drops_diff_parallel_scaling": dict(
        BLOCK, attn_layer="diff", block_layer="parallel_scaling", depth=2, train=True, proj_drop_rate=0.125,
        attn_drop_rate=0.25, drop_path_rate=0.5),
    "drops_distilled": dict(EMBED, train=True, distilled=True, drop_rate=0.25),
}


class PatchEmbed3d(nn.Module):
    """The volume twin of timm's PatchEmbed: a strided Conv3d."""

    def __init__(self, img_size, patch_size, in_chans, embed_dim, bias, dynamic_img_pad=False, output_fmt=None,
                 strict_img_size=True, device=None, dtype=None):
        super().__init__()
        self.patch_size = patch_size
        self.grid_size = [s // p for s, p in zip(img_size, patch_size)]
        self.num_patches = int(np.prod(self.grid_size))
        self.keep_grid = output_fmt is not None
        self.proj = nn.Conv3d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size, bias=bias)

    def feat_ratio(self):
        return max(self.patch_size)

    def forward(self, x):
        x = self.proj(x).movedim(1, -1)  # [B, G, G, G, D]
        return x if self.keep_grid else x.flatten(1, 3)


class PreLogits(timm_vit.VisionTransformer):
    """With the tanh layer before the head that the Flax ViT has."""

    def __init__(self, representation_size, **kwargs):
        super().__init__(**kwargs)
        self.pre_logits = nn.Sequential()
        self.pre_logits.add_module("fc", nn.Linear(self.embed_dim, representation_size))
        self.pre_logits.add_module("act", nn.Tanh())
        self.head = nn.Linear(representation_size, self.num_classes)

    def forward_head(self, x, pre_logits=False):
        x = self.pre_logits(self.fc_norm(self.pool(x)))
        return self.head(self.head_drop(x))


class VolumeViT(timm_vit.VisionTransformer):
    """timm's resampling is for two sides; the rest is as it is."""

    def _pos_embed(self, x):
        if self.dynamic_img_size:
            prefix = 0 if self.no_embed_class else self.num_prefix_tokens
            position = pos_embed.resize(self.pos_embed, self.patch_embed.grid_size, x.shape[1:4], prefix, "bicubic")
            saved, self.dynamic_img_size = self.pos_embed, False
            self._parameters["pos_embed"] = position
            x = super()._pos_embed(x.flatten(1, 3))
            self._parameters["pos_embed"], self.dynamic_img_size = saved, True
            return x
        return super()._pos_embed(x)


class MaskedDropout(nn.Module):
    """Dropout and DropPath with the masks of Note [Drop masks]."""

    def __init__(self, name, rate, whole_sample):
        super().__init__()
        self.name, self.rate, self.whole_sample, self.calls = name, rate, whole_sample, 0

    def forward(self, x):
        if self.rate == 0.0 or not self.training:
            return x
        # The distilled head calls one module for both tokens; Fovea has a name for each.
        name = self.name + ("_dist" if self.calls else "")
        self.calls += 1
        shape = (x.shape[0],) + ((1,) * (x.ndim - 1) if self.whole_sample else x.shape[1:])
        elements = int(np.prod(shape[1:]))
        mask = philox.drop_mask(philox.philox_key(SEED, name), STEP, ROWS, elements, self.rate)
        return x * torch.from_numpy(mask).to(x.dtype).reshape(shape)


class MaskedPatchDropout(nn.Module):
    def __init__(self, name, rate, num_prefix):
        super().__init__()
        self.name, self.rate, self.num_prefix = name, rate, num_prefix

    def forward(self, x):
        prefix, x = x[:, :self.num_prefix], x[:, self.num_prefix:]
        num_keep = max(1, int(x.shape[1] * (1.0 - self.rate)))
        keep = philox.patch_keep_indices(philox.philox_key(SEED, self.name), STEP, ROWS, x.shape[1], num_keep)
        keep = torch.from_numpy(keep)[..., None].expand(-1, -1, x.shape[2])
        return torch.cat([prefix, x.gather(1, keep)], 1)


def build(config):
    """timm's model for one of Fovea's configs."""
    args = dict(config)
    for key in ("dtype", "train", "input_size", "crop_to_patches", "pos_embed_interp"):
        args.pop(key, None)
    sides = max(2, len(args["img_size"]), len(args["patch_size"]))
    for key in ("img_size", "patch_size"):
        args[key] = tuple(args[key] * sides if len(args[key]) == 1 else args[key])
    args["norm_layer"] = functools.partial(NORMS[args.pop("norm_layer", "layer_norm")], eps=args.pop("norm_eps"))
    args["mlp_layer"] = MLPS[args.pop("mlp_layer", "mlp")]
    block = args.pop("block_layer", "pre_norm")
    args["block_fn"] = BLOCKS[block]
    if block == "parallel_scaling" and args.get("attn_layer") == "diff":
        args["block_fn"] = timm_vit.DiffParallelScalingBlock
    if "num_parallel" in args:
        args["block_fn"] = functools.partial(args["block_fn"], num_parallel=args.pop("num_parallel"))
    if args.pop("embed_norm", False):
        args["embed_norm_layer"] = args["norm_layer"]
    args["act_layer"] = ACTIVATIONS[args.pop("act_layer", "gelu")]
    is_sincos = args.get("pos_embed") == "sincos"
    if is_sincos:
        args["pos_embed"] = "learn"
    if sides == 3:
        model = VolumeViT(embed_layer=PatchEmbed3d, **args)
    elif args.pop("distilled", False):
        model = VisionTransformerDistilled(**args)
    elif args.get("representation_size"):
        model = PreLogits(**args)
    else:
        model = timm_vit.VisionTransformer(**args)
    return model, is_sincos


def randomise(model, generator):
    """Random values everywhere, on the scale of a trained model."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("gamma"):
                parameter.copy_(0.5 + 0.2 * noise)
            elif "norm" in name and name.endswith("weight"):
                parameter.copy_(1.0 + 0.3 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.3 * noise)
            elif name.endswith(("pos_embed", "token", "latent")):
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(1.2 * noise / parameter[0].numel() ** 0.5)


def exact_lambda(module):
    """timm rounds it to float32, in a model of float64 too."""
    first, second = (module.lambda_q1 * module.lambda_k1).sum(), (module.lambda_q2 * module.lambda_k2).sum()
    return first.exp() - second.exp() + module.lambda_init


def install_masks(model):
    for name, module in list(model.named_modules()):
        if isinstance(module, (nn.Dropout, DropPath)):
            rate = module.p if isinstance(module, nn.Dropout) else module.drop_prob
            masked = MaskedDropout(name, rate, isinstance(module, DropPath))
        elif isinstance(module, PatchDropout):
            masked = MaskedPatchDropout(name, module.prob, module.num_prefix_tokens)
        else:
            continue
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, masked)


def record_intermediates(model, is_gated):
    """Hooks on every module that computes something; names are timm's module paths."""
    kept = {}
    transposes_queries = isinstance(model.blocks[0], timm_vit.ParallelScalingBlock)
    skipped = (nn.Identity, nn.Dropout, DropPath, PatchDropout, MaskedDropout, MaskedPatchDropout, nn.Conv2d, nn.Conv3d)

    def keep(name, module, inputs, output):
        if name == "patch_embed":
            output = output.flatten(1, -2)
        if name == "attn_pool.q":
            output = output[:1]  # the same query for every sample
        if name.endswith(("q_norm", "k_norm")) and transposes_queries:
            output = output.transpose(1, 2)  # there normed before heads come to the front
        kept[name] = output.detach().clone()

    def keep_probabilities(name, module, inputs, output):
        kept[name] = inputs[0].detach().clone()

    for name, module in model.named_modules():
        if name.endswith(".attn_drop"):
            module.register_forward_hook(functools.partial(keep_probabilities, name.replace("attn_drop", "probs")))
        is_branch = isinstance(module, nn.Sequential) and name != "pre_logits"  # of parallel things
        if not name or name == "blocks" or is_branch or isinstance(module, skipped) or name == "pre_logits.act":
            continue
        if name.endswith(".act") and is_gated and name.startswith("blocks"):
            continue  # the gate alone: not an output of its own
        module.register_forward_hook(functools.partial(keep, name))
    return kept


def loss_of(output, labels):
    """Cross-entropy; of the mean over tokens where there is no pooling, mean square where there is no head."""
    if output.shape[-1] != DEFAULTS["num_classes"]:
        return output.square().mean()
    if output.ndim == 3:
        output = output.mean(1)
    return F.cross_entropy(output, labels, label_smoothing=SMOOTHING)


def make(case, overrides):
    config = {**DEFAULTS, **overrides}
    generator = torch.Generator().manual_seed(sum(map(ord, case)))
    dtype = getattr(torch, config.get("dtype", "float32"))
    model, is_sincos = build(config)
    randomise(model, generator)
    if is_sincos:
        prefix = 0 if config.get("no_embed_class") else model.num_prefix_tokens
        table = pos_embed.sincos(model.patch_embed.grid_size, config["embed_dim"], prefix)
        model.pos_embed = nn.Parameter(table.float(), requires_grad=False)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model = model.to(dtype)
    for module in model.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
        if hasattr(module, "_compute_lambda"):
            module._compute_lambda = functools.partial(exact_lambda, module)
    if config.get("train"):
        install_masks(model)
    model.train(bool(config.get("train")))
    interp = config.get("pos_embed_interp", "bicubic")
    if interp != "bicubic":
        timm_vit.resample_abs_pos_embed = lambda p, new_size, old_size, num_prefix_tokens: pos_embed.resize(
            p, old_size, new_size, num_prefix_tokens, interp)
    else:
        timm_vit.resample_abs_pos_embed = timm.layers.resample_abs_pos_embed
    kept = record_intermediates(model, config.get("mlp_layer", "mlp") != "mlp")
    sides = list(config.get("input_size") or config["img_size"])
    if len(sides) == 1:
        sides = sides * 2
    images = torch.randn([2, config["in_chans"], *sides], generator=generator)
    labels = torch.randint(0, 10, [2], generator=generator)
    output = model(images.to(dtype))
    loss = loss_of(output, labels)
    loss.backward()
    tensors = {"input": images, "labels": labels, "logits": output.detach(), "loss": loss.detach()}
    tensors.update({"weights/" + k: v for k, v in weights.items()})
    tensors.update({"intermediates/" + k: v for k, v in kept.items()})
    tensors.update({"gradients/" + k: v.grad for k, v in model.named_parameters() if v.grad is not None})
    if config.get("train"):
        tensors["rows"] = torch.tensor(ROWS)
    assert all(torch.isfinite(t).all() for t in tensors.values()), case
    path = OUT / f"vit_{case}.safetensors"
    versions = f"timm {timm.__version__}, torch {torch.__version__}"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps(config), "made_by": f"tools/golden/make_vit.py, {versions}"})
    assert path.stat().st_size < 500_000, (path, path.stat().st_size)
    print(f"{path.name}: {len(kept)} intermediates, {sum(k.startswith('gradients/') for k in tensors)} gradients, "
          f"loss {loss.item():.6f}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or CASES:
        make(chosen, CASES[chosen])
