"""Goldens for channels as variables (fovea/nn/variable_embed): VIT and MAE of UCF-VIT (irlyngaas/UCF-VIT, commit
c114eeb, simple/arch.py) with use_varemb, run in float64 on tiny configurations.

The smallest changes that it needs: a misspelt keyword of its PatchEmbed is renamed; and where share_patch_embed is off the
list that holds one patch embedding many times gets copies of it, as the line before it, which is commented out, has it.

Each file holds the config of ours, the foreign state_dict ("weights/"), the input with the names of its channels, the
tokens after the aggregation, logits or predictions, loss and every gradient, all under the foreign names. Variables that
a batch does not hold have no gradients. Weights are random and never zero or one.

    python tools/golden/make_variables.py FOLDER_OF_UCF_VIT

Needs torch 2.11.0, timm 1.0.31, monai 1.6.0, einops 0.8.2, safetensors.
"""
import copy
import json
import pathlib
import sys
from unittest import mock

import numpy as np
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

GRID = dict(img_size=[8, 12], patch_size=[4], embed_dim=24, depth=2, num_heads=2, mlp_ratio=2.0, num_classes=5)
VOLUME = {**GRID, "img_size": [4, 8, 12], "patch_size": [4, 4, 4], "depth": 1, "class_token": False, "global_pool": ""}
ADAPTIVE = {**GRID, "img_size": [32, 48], "patching": "adaptive", "fixed_length": 7, "patch_norm": True}
RGB = ["red", "green", "blue"]
MAE = dict(mask_ratio=0.5, decoder_embed_dim=12, decoder_depth=1, decoder_num_heads=3, decoder_mlp_ratio=2.0,
           decoder_norm_eps=1e-5)
HEADLESS = {"num_classes": 0, "class_token": False}

# Config of ours; "channels" are those of the batch.
CASES = {
    "grid": dict(vit={**GRID, "variables": RGB}, channels=RGB),
    "grid_subset": dict(vit={**GRID, "variables": RGB + ["infrared"]}, channels=["infrared", "red"]),
    "grid_shared": dict(vit={**GRID, "variables": RGB, "share_patch_embed": True}, channels=["blue", "green"]),
    "grid_single": dict(vit={**GRID, "variables": RGB, "single_channel": True}, channels=["blue"]),
    "volume": dict(vit={**VOLUME, "variables": ["ct", "mr"]}, channels=["ct", "mr"]),
    "volume_subset": dict(vit={**VOLUME, "variables": ["t1", "t2", "pd"]}, channels=["pd", "t1"]),
    "adaptive": dict(vit={**ADAPTIVE, "variables": RGB, "pos_embed": "size_and_center", "pos_in_pixels": True},
                     channels=["green", "red"]),
    "adaptive_single": dict(vit={**ADAPTIVE, "variables": RGB, "single_channel": True}, channels=["green"]),
    "adaptive_volume": dict(vit={**ADAPTIVE, "img_size": [16, 32, 24], "depth": 1, "class_token": False, "global_pool": "",
                                 "variables": ["ct", "mr"]}, channels=["ct", "mr"]),
    "mae": dict(vit={**GRID, **HEADLESS, "variables": RGB}, channels=RGB, mae=MAE),
    "mae_plain": dict(vit={**GRID, **HEADLESS, "in_chans": 2}, channels=["a", "b"], mae=MAE),
    "mae_volume": dict(vit={**VOLUME, "num_classes": 0, "variables": ["ct", "mr"]}, channels=["ct", "mr"], mae=MAE),
    "mae_adaptive": dict(vit={**ADAPTIVE, **HEADLESS, "variables": RGB, "pos_embed": "size_and_center",
                              "pos_in_pixels": True}, channels=RGB, mae={**MAE, "decoder_pos_embed": "size_and_center"}),
    "mae_adaptive_plain": dict(vit={**ADAPTIVE, **HEADLESS, "in_chans": 2}, channels=["a", "b"],
                               mae={**MAE, "decoder_pos_embed": "learn"}),
}


def import_ucf(folder):
    for name in ("nibabel", "cv2", "torchdata", "torchdata.datapipes"):  # for reading data only
        sys.modules[name] = mock.MagicMock()
    sys.path.insert(0, str(pathlib.Path(folder) / "src"))
    from UCF_VIT.simple import arch
    from UCF_VIT.simple.building_blocks import PatchEmbed
    from UCF_VIT.utils.fused_attn import FusedAttn
    from UCF_VIT.utils.misc import patchify

    def patch_embed(sqrt_len_meth=None, **keys):
        if sqrt_len_meth is not None:
            keys["sqrt_len_method"] = sqrt_len_meth
        return PatchEmbed(**keys)

    return arch, patch_embed, FusedAttn, patchify


def build(case, folder):
    arch, patch_embed, fused, patchify = import_ucf(folder)
    vit, mae = case["vit"], case.get("mae")
    is_adaptive = vit.get("patching") == "adaptive"
    variables = vit.get("variables")
    vit["in_chans"] = vit.get("in_chans", 1 if vit.get("single_channel") else len(variables or []))
    keys = dict(
        img_size=vit["img_size"], patch_size=vit["patch_size"][0], in_chans=vit["in_chans"],
        num_classes=vit["num_classes"] or None, embed_dim=vit["embed_dim"], depth=vit["depth"],
        num_heads=vit["num_heads"], mlp_ratio=vit["mlp_ratio"], class_token=vit.get("class_token", True),
        embed_layer=patch_embed, twoD=len(vit["img_size"]) == 2, adaptive_patching=is_adaptive,
        fixed_length=vit.get("fixed_length"), default_vars=variables or case["channels"],
        single_channel=vit.get("single_channel", False), use_varemb=variables is not None, FusedAttn_option=fused.NONE,
        use_adaptive_pos_emb=vit.get("pos_embed") == "size_and_center", weight_init="skip")
    if not mae:
        model = arch.VIT(**keys)
    else:
        model = arch.MAE(
            **keys, mask_ratio=mae["mask_ratio"], linear_decoder=False, decoder_depth=mae["decoder_depth"],
            decoder_embed_dim=mae["decoder_embed_dim"], decoder_num_heads=mae["decoder_num_heads"],
            mlp_ratio_decoder=mae["decoder_mlp_ratio"])
    is_listed = variables is not None and not is_adaptive
    if is_listed and not vit.get("share_patch_embed"):
        model.token_embeds = nn.ModuleList(copy.deepcopy(one) for one in model.token_embeds)
        del model.patch_embed
    if vit.get("pos_embed") == "size_and_center":  # there, but not read
        model.pos_embed.requires_grad_(False)
    return model.double(), patchify


def randomise(model, generator):
    done = set()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if id(parameter) in done:
                continue
            done.add(id(parameter))
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(torch.float16).double()
            is_norm = "norm" in name or (parameter.ndim == 1 and ".0.weight" in name) or ".2.weight" in name
            if is_norm and name.endswith("weight"):
                parameter.copy_(1.0 + 0.25 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.25 * noise)
            elif parameter.shape[0] == 1:  # tokens, positions, variables
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(noise / 2 ** round(0.5 * np.log2(parameter[0].numel())))
            parameter.copy_(parameter.float())  # what the file holds


def make_input(case, generator):
    """images, or adaptive patches -> tensors of the file, the model's input, and size and centre in pixels"""
    vit, channels = case["vit"], len(case["channels"])
    sides = vit["img_size"]
    if vit.get("patching") != "adaptive":
        images = torch.randn([2, channels, *sides], generator=generator)
        return {"images": images}, images, None
    length, values = vit["fixed_length"], vit["patch_size"][0] ** len(sides)
    tokens = torch.randn([2, channels, length, values], generator=generator)
    sizes = (torch.randint(1, 5, (2, 1, length), generator=generator) * 4).double()
    places = torch.rand((2, 1, length, len(sides)), generator=generator) * torch.tensor(sides[::-1]).double()
    centers = places.float()
    where = torch.cat([sizes[:, 0, :, None], centers[:, 0].double()], -1)
    return {"tokens": tokens, "sizes": sizes.float(), "centers": centers}, tokens, where


def make(name, case, folder):
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    model, patchify = build(case, folder)
    randomise(model, generator)
    model.eval()
    tensors, x, where = make_input(case, generator)
    vit, mae = case["vit"], case.get("mae")
    seen = []
    position = model._pos_embed
    model._pos_embed = lambda tokens, places: (seen.append(tokens), position(tokens, places))[1]
    if mae:
        noise = torch.rand([2, seq_length(vit)], generator=generator)
        with mock.patch.object(torch, "rand", lambda *_, **__: noise):
            output, mask = model(x, case["channels"], where)
        if where is None:
            target = patchify(x, vit["patch_size"][0], len(vit["img_size"]) == 2)
        else:
            target = x.permute(0, 2, 3, 1).flatten(2)
        loss = F.mse_loss(output, target)
        kept = (mask == 0).nonzero()[:, 1].reshape(2, -1)
        tensors.update(ids_keep=kept, predictions=output.detach())
    else:
        labels = torch.tensor([3, 1])
        output = model(x, case["channels"], where)
        flat = output.flatten(0, -2)
        loss = F.cross_entropy(flat, labels.repeat_interleave(flat.shape[0] // 2), label_smoothing=0.1)
        tensors.update(labels=labels, logits=output.detach())
    loss.backward()
    tensors.update(embedded=seen[0].detach(), loss=loss.detach())
    unused = {"pos_embed"} if vit.get("pos_embed") == "size_and_center" else set()
    for key, value in model.state_dict().items():
        if key not in unused:
            assert torch.equal(value, value.float().double())
            tensors["weights/" + key] = value.float()
    absent = {f"token_embeds.{i}." for i, v in enumerate(vit.get("variables", [])) if v not in case["channels"]}
    gradients = 0
    for key, parameter in model.named_parameters(remove_duplicate=False):
        if key in unused or (any(key.startswith(a) for a in absent) and not vit.get("share_patch_embed")):
            assert parameter.grad is None
            continue
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, (name, key)
        tensors["gradients/" + key] = parameter.grad
        gradients += 1
    config = {**mae, "encoder": encoder_of(vit)} if mae else vit
    path = OUT / f"variables_{name}.safetensors"
    versions = f"timm {timm.__version__}, torch {torch.__version__}"
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps({"model": config, "channels": case["channels"]}),
                        "made_by": f"tools/golden/make_variables.py, {versions}"})
    assert path.stat().st_size < 300_000, (path, path.stat().st_size)
    print(f"{path.name}: {gradients} gradients, loss {loss.item():.6f}, {path.stat().st_size} bytes")


def encoder_of(vit):
    keys = {k: v for k, v in vit.items() if k not in ("num_classes", "global_pool")}
    return {"pos_embed": "learn", **keys}


def seq_length(vit):
    if vit.get("patching") == "adaptive":
        return vit["fixed_length"]
    return int(np.prod([side // vit["patch_size"][0] for side in vit["img_size"]]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for chosen, settings in CASES.items():
        make(chosen, settings, sys.argv[1])
