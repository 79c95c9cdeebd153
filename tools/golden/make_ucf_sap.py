"""Goldens for SAP as UCF-VIT has it: its own SAP (irlyngaas/UCF-VIT, commit c114eeb, simple/arch.py), run in float64 on tiny
configurations: images and volumes, one channel and several, channels as variables.

It needs the changes that make_ucf_unetr.py makes to its PatchEmbed and to torch.squeeze. Each file holds the config of ours, the
foreign state_dict ("weights/"), the patches, every fifth logit in the order of the patches ([B, K, L, S], as Fovea gives them; there
they lie on a square or a cube), the cross-entropy over all pixels of all patches and every gradient, under the foreign names.

    python tools/golden/make_ucf_sap.py FOLDER_OF_UCF_VIT

Needs what make_ucf_unetr.py needs.
"""
import json
import sys
from unittest import mock

import einops
import timm
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from make_ucf_unetr import SOLID_TREE, FLAT_TREE, coarse, make_input, randomise_coarsely, side_of
from make_variables import OUT, encoder_of, import_ucf

WIDTH = 256  # of its decoder; not to be chosen there
FLAT = {**FLAT_TREE, "patch_size": [2], "embed_dim": 8, "depth": 2}
SOLID = {**SOLID_TREE, "patch_size": [2, 2, 2], "depth": 1}
CASES = {
    "2d": dict(encoder={**FLAT, "in_chans": 3}, num_classes=3),
    "2d_learn": dict(encoder={**FLAT, "img_size": [8, 8], "pos_embed": "learn", "pos_in_pixels": False}, num_classes=2),
    "3d": dict(encoder={**SOLID, "in_chans": 2}, num_classes=3),
    "2d_variables": dict(encoder={**FLAT, "variables": ["red", "green"], "in_chans": 2, "share_patch_embed": True},
                         channels=["green", "red"], num_classes=2),
    "3d_single": dict(encoder={**SOLID, "variables": ["ct", "mr"], "single_channel": True, "share_patch_embed": True},
                      channels=["mr"], num_classes=2),
}


def build(case, folder):
    arch, patch_embed, fused, _ = import_ucf(folder)
    vit = case["encoder"]
    variables = vit.get("variables")
    model = arch.SAP(
        img_size=vit["img_size"], patch_size=vit["patch_size"][0], in_chans=vit["in_chans"], num_classes=case["num_classes"],
        embed_dim=vit["embed_dim"], depth=vit["depth"], num_heads=vit["num_heads"], mlp_ratio=vit["mlp_ratio"],
        class_token=False, embed_layer=patch_embed, twoD=len(vit["img_size"]) == 2, adaptive_patching=True,
        fixed_length=vit["fixed_length"], default_vars=variables or ["a", "b", "c"][:vit["in_chans"]],
        single_channel=vit.get("single_channel", False), use_varemb=variables is not None, FusedAttn_option=fused.NONE,
        use_adaptive_pos_emb=vit["pos_embed"] == "size_and_center", sqrt_len_method=True,
        sqrt_len=side_of(vit), weight_init="skip")
    if vit["pos_embed"] == "size_and_center":  # there, but not read
        model.pos_embed.requires_grad_(False)
    return model.double()


def in_patches(x, vit):
    """[B, K, rows of pixels ...] of patches on a square or a cube -> [B, K, L, S]"""
    d = len(vit["img_size"])
    rows, values = " ".join(f"s{i}" for i in range(d)), " ".join(f"p{i}" for i in range(d))
    laid = " ".join(f"(s{i} p{i})" for i in range(d))
    return einops.rearrange(x, f"b k {laid} -> b k ({rows}) ({values})", **{f"p{i}": vit["patch_size"][0] for i in range(d)})


def make(name, case, folder):
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    vit = case["encoder"]
    model = build(case, folder)
    randomise_coarsely(model, generator)
    tensors, laid, where = make_input(case, generator)
    del tensors["images"]
    shape = (2, vit["fixed_length"], vit["patch_size"][0] ** len(vit["img_size"]))
    tensors["labels"] = torch.randint(0, case["num_classes"], shape, generator=generator).to(torch.uint8)
    channels = case.get("channels") or ["a", "b", "c"][:vit["in_chans"]]
    with mock.patch.object(torch, "squeeze", lambda x: x):
        logits = in_patches(model(laid, channels, where), vit)
    loss = F.cross_entropy(logits, tensors["labels"].long())
    loss.backward()
    tensors.update(logits=logits.detach().flatten()[::5].float(), loss=loss.detach().float())
    is_read = {k: (k != "pos_embed" or vit["pos_embed"] == "learn") and not k.startswith("patch_embed.")
               for k in model.state_dict()}
    tensors.update({"weights/" + k: coarse(v) for k, v in model.state_dict().items() if is_read[k]})
    gradients = {k: p.grad for k, p in model.named_parameters(remove_duplicate=False) if is_read[k]}
    assert all(g is not None and g.abs().max() > 0 for g in gradients.values()), name
    tensors.update({"gradients/" + k: g.float() for k, g in gradients.items()})
    config = {"num_classes": case["num_classes"], "decoder_dim": WIDTH, "encoder": encoder_of(vit)}
    path = OUT / f"ucf_sap_{name}.safetensors"
    save_file({k: v.detach().contiguous().clone() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps({"model": config, "channels": case.get("channels", [])}),
                        "made_by": f"tools/golden/make_ucf_sap.py, timm {timm.__version__}, torch {torch.__version__}"})
    print(f"{path.name}: {len(gradients)} gradients, loss {loss.item():.6f}, {path.stat().st_size} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for chosen, settings in CASES.items():
        make(chosen, settings, sys.argv[1])
