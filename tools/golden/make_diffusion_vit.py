"""Goldens for fovea/models/diffusion_vit: the published code that it follows, run in float64 on tiny configurations.

  ucf_*: DiffusionVIT of UCF-VIT (irlyngaas/UCF-VIT, commit c114eeb), in evaluation mode and, `ucf_train`, with the
         dropout of its time embedding replaced by the mask of Note [Drop masks]. Its only change: `_pos_embed` gets its
         second argument a default, without which it cannot run.
  dit_*: DiT (facebookresearch/DiT, commit ed81ce2, models.py), with learn_sigma off.

Each file holds the sizes, the foreign state_dict ("weights/", values of float32), noisy images, time steps,
target, output, loss and every gradient, all under the foreign names. Weights are random and never zero or one. The
foreign code's float32 tables are made in float64 here.

    python tools/golden/make_diffusion_vit.py FOLDER_OF_UCF_VIT FOLDER_OF_DIT

Needs timm 1.0.31, torch 2.11.0, einops 0.8.1, safetensors.
"""
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

import philox

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
SEED, STEP, ROWS = 3, 7, [5, 2**33 + 1]
TIME_STEPS = 1000

# Config of ours; the sizes serve both sides.
CASES = {
    "ucf_linear": dict(
        kind="ucf", conditioning="add", img_size=[8, 12], patch_size=[4], in_chans=2, embed_dim=24, depth=2, num_heads=2,
        mlp_ratio=2.0, linear_decoder=True),
    "ucf_transformer": dict(
        kind="ucf", conditioning="add", img_size=[8, 8], patch_size=[2], in_chans=1, embed_dim=16, depth=1, num_heads=2,
        mlp_ratio=2.0, linear_decoder=False, decoder_embed_dim=12, decoder_depth=2, decoder_num_heads=3,
        decoder_mlp_ratio=3.0),
    "ucf_volume": dict(
        kind="ucf", conditioning="add", img_size=[4, 8, 12], patch_size=[4, 4, 4], in_chans=2, embed_dim=12, depth=1,
        num_heads=2, mlp_ratio=2.0, linear_decoder=False, decoder_embed_dim=12, decoder_depth=1, decoder_num_heads=2,
        decoder_mlp_ratio=2.0),
    "ucf_train": dict(
        kind="ucf", conditioning="add", img_size=[8, 8], patch_size=[4], in_chans=1, embed_dim=16, depth=1, num_heads=2,
        mlp_ratio=2.0, linear_decoder=True, train=True, time_drop_rate=0.5),
    "dit": dict(
        kind="dit", conditioning="adaln_zero", img_size=[8, 8], patch_size=[2], in_chans=3, embed_dim=16, depth=2,
        num_heads=2, mlp_ratio=2.0, linear_decoder=True, num_classes=5, act_layer="gelu_tanh"),
}


def in_float64():
    """Within it, code that asks for float32 by name gets float64."""
    stack = mock.patch.multiple(torch, float32=torch.float64)
    return stack, mock.patch.object(torch.Tensor, "float", torch.Tensor.double)


def import_ucf(folder):
    # For UNETR and for reading data only.
    for name in ("monai", "monai.networks", "monai.networks.blocks", "monai.networks.blocks.dynunet_block", "nibabel",
                 "cv2", "torchdata", "torchdata.datapipes"):
        sys.modules[name] = mock.MagicMock()
    sys.path.insert(0, str(pathlib.Path(folder) / "src"))
    from UCF_VIT.ddpm.ddpm import DDPM_Scheduler  # noqa: F401  (that it imports is enough)
    from UCF_VIT.simple.arch import DiffusionVIT
    from UCF_VIT.utils.fused_attn import FusedAttn
    from UCF_VIT.utils.misc import unpatchify

    class Runnable(DiffusionVIT):
        def _pos_embed(self, x, seq_ps=None):
            return super()._pos_embed(x, seq_ps)

    return Runnable, FusedAttn, unpatchify


class MaskedDropout(nn.Module):
    def __init__(self, name, rate):
        super().__init__()
        self.name, self.rate = name, rate

    def forward(self, x):
        key = philox.philox_key(SEED, self.name)
        mask = philox.drop_mask(key, STEP, ROWS, int(np.prod(x.shape[1:])), self.rate)
        return x * torch.from_numpy(mask).to(x.dtype).reshape(x.shape)


def build_ucf(config, folder):
    model_class, fused, unpatchify = import_ucf(folder)
    is_2d = len(config["img_size"]) == 2
    decoder = {key: config.get(key, 0) for key in ("decoder_depth", "decoder_embed_dim", "decoder_num_heads")}
    model = model_class(
        img_size=config["img_size"], patch_size=config["patch_size"][0], in_chans=config["in_chans"],
        embed_dim=config["embed_dim"], depth=config["depth"], num_heads=config["num_heads"],
        mlp_ratio=config["mlp_ratio"], linear_decoder=config["linear_decoder"], twoD=is_2d,
        mlp_ratio_decoder=config.get("decoder_mlp_ratio", 4.0), class_token=False, weight_init="skip",
        adaptive_patching=False, fixed_length=None, FusedAttn_option=fused.NONE, time_steps=TIME_STEPS,
        default_vars=["one"], single_channel=False, use_varemb=False, **decoder)
    if config.get("train"):
        model.timeEmbeddingMap.dropout = MaskedDropout("time_embed.drop", config["time_drop_rate"])

    def forward(noisy, t, classes):
        return unpatchify(model(noisy, t, ["one"]), noisy, config["patch_size"][0], is_2d)

    return model, forward


def build_dit(config, folder):
    sys.path.insert(0, folder)
    import models as dit
    model = dit.DiT(
        input_size=config["img_size"][0], patch_size=config["patch_size"][0], in_channels=config["in_chans"],
        hidden_size=config["embed_dim"], depth=config["depth"], num_heads=config["num_heads"],
        mlp_ratio=config["mlp_ratio"], class_dropout_prob=0.1, num_classes=config["num_classes"], learn_sigma=False)
    model.pos_embed.requires_grad_(True)
    return model, model


def randomise(model, generator):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(torch.float16).double()
            if "norm" in name and name.endswith("weight"):
                parameter.copy_(1.0 + 0.25 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.25 * noise)
            elif "embed" in name and parameter.ndim != 4 and parameter.ndim != 5 and not name.endswith("embed.weight"):
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(noise / 2 ** round(0.5 * np.log2(parameter[0].numel())))


def make(case, config, folders):
    generator = torch.Generator().manual_seed(sum(map(ord, case)))
    torch.set_default_dtype(torch.float64)
    patches = in_float64()
    for patch in patches:
        patch.start()
    build = build_ucf if config["kind"] == "ucf" else build_dit
    model, forward = build(config, folders[config["kind"]])
    model = model.double()
    randomise(model, generator)
    model.train(bool(config.get("train")))
    noisy = torch.randn([2, config["in_chans"], *config["img_size"]], generator=generator)
    target = torch.randn(noisy.shape, generator=generator)
    t = torch.tensor([17, 983])
    classes = torch.tensor([3, config.get("num_classes", 0)])  # the second: no class
    output = forward(noisy, t, classes)
    loss = F.mse_loss(output, target)
    loss.backward()
    for patch in patches:
        patch.stop()
    tensors = {"noisy": noisy, "target": target, "timesteps": t, "output": output.detach(), "loss": loss.detach()}
    if config.get("num_classes"):
        tensors["classes"] = classes
    if config.get("train"):
        tensors["rows"] = torch.tensor(ROWS)
    state = model.state_dict()  # UCF-VIT registers its patch embedding twice, the same tensors under two names
    weights = {name: state[name].to(torch.float32) for name, _ in model.named_parameters()}
    assert all(torch.equal(weights[name].double(), state[name]) for name in weights)
    tensors.update({"weights/" + name: value for name, value in weights.items()})
    gradients = {name: p.grad for name, p in model.named_parameters()}
    assert all(g is not None and torch.isfinite(g).all() and g.abs().max() > 0 for g in gradients.values()), case
    tensors.update({"gradients/" + name: value for name, value in gradients.items()})
    path = OUT / f"diffusion_vit_{case}.safetensors"
    versions = f"timm {timm.__version__}, torch {torch.__version__}"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps(config), "made_by": f"tools/golden/make_diffusion_vit.py, {versions}"})
    assert path.stat().st_size < 300_000, (path, path.stat().st_size)
    print(f"{path.name}: {len(weights)} weights, {len(gradients)} gradients, loss {loss.item():.6f}, "
          f"{path.stat().st_size} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen, settings in CASES.items():
        make(chosen, settings, {"ucf": sys.argv[1], "dit": sys.argv[2]})
