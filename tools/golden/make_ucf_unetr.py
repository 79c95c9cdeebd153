"""Goldens for UNETR as UCF-VIT has it: its own UNETR (irlyngaas/UCF-VIT, commit c114eeb, simple/arch.py, with MONAI's
blocks), run in float64 on tiny configurations: patches on a grid and adaptive patches, with and without skip connections,
the linear decoder, channels as variables.

The smallest changes that it needs: its nn.Upsample is bilinear for images, where it asks for trilinear whatever the number
of sides; a misspelt keyword of its PatchEmbed is renamed; torch.squeeze keeps the channel of adaptive patches of one
variable, without which its convolution refuses them.

Each file holds the config of ours, the foreign state_dict ("weights/"), the input, every fifth logit, the cross-entropy
over all voxels and every gradient, under the foreign names, in float32; images, labels and weights in as few bits as hold
them. Weights are random and never zero or one. The patch embedding, which has two names there, is stored under one.

    python tools/golden/make_ucf_unetr.py FOLDER_OF_UCF_VIT

Needs torch 2.11.0, timm 1.0.31, monai 1.6.0, einops 0.8.2, safetensors.
"""
import json
import sys
from unittest import mock

import einops
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from make_variables import OUT, encoder_of, import_ucf, randomise

ENCODER = dict(in_chans=1, embed_dim=12, depth=4, num_heads=2, mlp_ratio=2.0, class_token=False)
FLAT = {**ENCODER, "img_size": [32, 32], "patch_size": [16]}
SOLID = {**ENCODER, "img_size": [16, 8, 12], "patch_size": [4, 4, 4]}
TREE = {"patching": "adaptive", "patch_norm": False, "pos_embed": "size_and_center", "pos_in_pixels": True}
FLAT_TREE = {**FLAT, **TREE, "img_size": [64, 64], "patch_size": [4], "fixed_length": 16}
SOLID_TREE = {**SOLID, **TREE, "fixed_length": 8}
MODEL = dict(num_classes=2, feature_size=1, upsample="resize")

CASES = {
    "2d": dict(encoder={**FLAT, "in_chans": 2}, feature_size=2, num_classes=3),
    "2d_no_skip": dict(encoder=FLAT, feature_size=2, skip_connection=False),
    "2d_patch_8": dict(encoder={**FLAT, "patch_size": [8]}, feature_size=2),
    "2d_linear": dict(encoder=FLAT, skip_connection=False, linear_decoder=True),
    "3d": dict(encoder={**SOLID, "img_size": [32, 16, 16], "patch_size": [16, 16, 16], "embed_dim": 6}, batch=1),
    "3d_patch_4": dict(encoder={**SOLID, "in_chans": 2}, num_classes=3),
    "3d_no_skip": dict(encoder=SOLID, skip_connection=False),
    "3d_linear": dict(encoder=SOLID, skip_connection=False, linear_decoder=True, num_classes=3),
    "2d_adaptive": dict(encoder={**FLAT_TREE, "in_chans": 2}, feature_size=2),
    "2d_adaptive_resize": dict(encoder={**FLAT_TREE, "img_size": [24, 40]}, feature_size=2, num_classes=3),
    # A grid of img_size / patch_size happens to have as many cells as there are patches.
    "2d_adaptive_learn": dict(encoder={**FLAT_TREE, "img_size": [16, 16], "pos_embed": "learn", "pos_in_pixels": False}),
    "3d_adaptive": dict(encoder={**SOLID_TREE, "img_size": [32, 32, 32]}, batch=1),
    "3d_adaptive_resize": dict(encoder={**SOLID_TREE, "in_chans": 2}),
    "3d_adaptive_no_skip": dict(encoder=SOLID_TREE, skip_connection=False),
    "2d_variables": dict(encoder={**FLAT, "variables": ["red", "green"], "in_chans": 2, "share_patch_embed": True},
                         channels=["red", "green"]),
    "3d_adaptive_variables": dict(encoder={**SOLID_TREE, "variables": ["ct", "mr"], "in_chans": 2, "share_patch_embed": True},
                                  channels=["ct", "mr"]),
    "3d_adaptive_single": dict(encoder={**SOLID_TREE, "variables": ["ct", "mr"], "single_channel": True,
                                        "share_patch_embed": True}, channels=["mr"]),
}


def side_of(vit):
    return round(vit["fixed_length"] ** (1 / len(vit["img_size"])))


def build(case, folder):
    arch, patch_embed, fused, _ = import_ucf(folder)
    vit = case["encoder"]
    is_adaptive, sides = vit.get("patching") == "adaptive", len(vit["img_size"])
    variables = vit.get("variables")
    model = arch.UNETR(
        img_size=vit["img_size"], patch_size=vit["patch_size"][0], in_chans=vit["in_chans"], num_classes=case["num_classes"],
        embed_dim=vit["embed_dim"], depth=vit["depth"], num_heads=vit["num_heads"], mlp_ratio=vit["mlp_ratio"],
        class_token=False, embed_layer=patch_embed, twoD=sides == 2, adaptive_patching=is_adaptive,
        fixed_length=vit.get("fixed_length"), default_vars=variables or ["a", "b"][:vit["in_chans"]],
        single_channel=vit.get("single_channel", False), use_varemb=variables is not None, FusedAttn_option=fused.NONE,
        use_adaptive_pos_emb=vit.get("pos_embed") == "size_and_center", sqrt_len_method=is_adaptive,
        sqrt_len=side_of(vit) if is_adaptive else None, weight_init="skip", linear_decoder=case.get("linear_decoder", False),
        feature_size=case["feature_size"], skip_connection=case.get("skip_connection", True))
    if sides == 2 and hasattr(model, "upsample"):
        model.upsample = nn.Upsample(size=model.upsample.size, scale_factor=model.upsample.scale_factor, mode="bilinear",
                                     align_corners=True)
    if vit.get("pos_embed") == "size_and_center":  # there, but not read
        model.pos_embed.requires_grad_(False)
    return model.double()


def coarse(tensor):
    """values that a half holds"""
    return tensor.to(torch.float16)


def randomise_coarsely(model, generator):
    """weights that a half holds; the model evaluates then"""
    randomise(model, generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(coarse(parameter))
    model.eval()


def make_input(case, generator):
    """tensors of the file; images, adaptive patches as one image, and size and centre in pixels"""
    vit, batch = case["encoder"], case.get("batch", 2)
    sides, channels = vit["img_size"], len(case.get("channels", [])) or vit["in_chans"]
    tensors = {"images": coarse(torch.randn([batch, channels, *sides], generator=generator)),
               "labels": torch.randint(0, case["num_classes"], (batch, *sides), generator=generator).to(torch.uint8)}
    if vit.get("patching") != "adaptive":
        return tensors, None, None
    length, p, d = vit["fixed_length"], vit["patch_size"][0], len(sides)
    tensors["tokens"] = coarse(torch.randn([batch, channels, length, p ** d], generator=generator))
    tensors["sizes"] = (torch.randint(1, 5, (batch, 1, length), generator=generator) * 4).float()
    places = torch.rand((batch, 1, length, d), generator=generator) * torch.tensor(sides[::-1])
    tensors["centers"] = coarse(places).float()
    where = torch.cat([tensors["sizes"][:, 0, :, None], tensors["centers"][:, 0]], -1).double()
    # As upstream's training script lays them.
    rows, values = " ".join(f"s{i}" for i in range(d)), " ".join(f"p{i}" for i in range(d))
    image = " ".join(f"(s{i} p{i})" for i in range(d))
    lengths = {f"s{i}": side_of(vit) for i in range(d)} | {f"p{i}": p for i in range(d)}
    laid = einops.rearrange(tensors["tokens"].double(), f"b c ({rows}) ({values}) -> b c {image}", **lengths)
    return tensors, laid, where


def make(name, case, folder):
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    case = {**MODEL, **case}
    vit = case["encoder"]
    model = build(case, folder)
    randomise_coarsely(model, generator)
    tensors, laid, where = make_input(case, generator)
    channels = case.get("channels") or ["a", "b"][:vit["in_chans"]]
    images = tensors["images"].double()
    with mock.patch.object(torch, "squeeze", lambda x: x):
        logits = model(images, channels) if laid is None else model(images, channels, where, laid)
    assert logits.shape[2:] == images.shape[2:], (name, logits.shape)
    loss = F.cross_entropy(logits, tensors["labels"].long())
    loss.backward()
    tensors.update(logits=logits.detach().flatten()[::5].float(), loss=loss.detach().float())
    has_table = vit.get("pos_embed") != "size_and_center"
    is_shown = {k: (k != "pos_embed" or has_table) and not k.startswith("patch_embed.") for k in model.state_dict()}
    for key, value in model.state_dict().items():
        if is_shown[key]:
            assert torch.equal(value, coarse(value).double()), key
            tensors["weights/" + key] = coarse(value)
    gradients = 0
    for key, parameter in model.named_parameters(remove_duplicate=False):
        if not is_shown[key]:
            continue
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, (name, key)
        tensors["gradients/" + key] = parameter.grad.float()
        gradients += 1
    keys = {k: v for k, v in case.items() if k not in ("encoder", "channels", "batch")}
    if vit.get("patching") == "adaptive":
        keys["adaptive_map"] = "sequence"
        del keys["upsample"]
    path = OUT / f"ucf_unetr_{name}.safetensors"
    versions = f"timm {timm.__version__}, torch {torch.__version__}"
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps({"model": {**keys, "encoder": encoder_of(vit)}, "channels": case.get("channels", [])}),
                        "made_by": f"tools/golden/make_ucf_unetr.py, {versions}"})
    print(f"{path.name}: {gradients} gradients, loss {loss.item():.6f}, {path.stat().st_size} bytes")
    assert path.stat().st_size < 300_000, path.stat().st_size


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for chosen, settings in CASES.items():
        make(chosen, settings, sys.argv[1])
