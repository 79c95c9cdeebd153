"""Goldens for fovea/models/unetr: MONAI's UNETR, and networks of MONAI's blocks for what it cannot be told (other patch
sizes, no skip connections, a linear decoder, UCF-VIT's interpolation).

Each file holds the config (metadata, Fovea's keys), MONAI's state_dict ("weights/", MONAI's names), the input, labels,
logits, loss (cross-entropy) and every gradient. Computed in float64, stored in float32. Weights are random, norms and
biases too. Needs monai 1.6.0, einops, torch 2.11.0, safetensors.

    python tools/golden/make_unetr.py [case ...]
"""
import json
import pathlib
import sys

import monai
import torch
import torch.nn.functional as F
from monai.networks.blocks import UnetOutBlock
from monai.networks.blocks.dynunet_block import get_conv_layer
from monai.networks.blocks.unetr_block import UnetrBasicBlock, UnetrPrUpBlock, UnetrUpBlock
from monai.networks.nets import UNETR
from monai.networks.nets.vit import ViT
from safetensors.torch import save_file
from torch import nn

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"

IMAGES = dict(img_size=[32, 48], patch_size=[16, 16], in_chans=2, num_classes=3, feature_size=2, embed_dim=6, num_heads=2)
VOLUMES = dict(img_size=[16, 16, 32], patch_size=[16, 16, 16], in_chans=1, num_classes=2, feature_size=1, embed_dim=4,
               num_heads=2)
SMALL = dict(depth=4)

CASES = {
    "2d": dict(IMAGES),
    "2d_plain": dict(IMAGES, res_block=False, conv_block=False, qkv_bias=True),
    "2d_no_res_block": dict(IMAGES, res_block=False),
    "2d_no_conv_block": dict(IMAGES, conv_block=False),
    "2d_perceptron": dict(IMAGES, proj_type="perceptron", qkv_bias=True),
    "3d": dict(VOLUMES),
    "3d_plain": dict(VOLUMES, res_block=False, conv_block=False),
    "2d_patch_8": dict(IMAGES, **SMALL, patch_size=[8, 8], feature_size=3),
    "2d_patch_32": dict(IMAGES, **SMALL, patch_size=[32, 16], in_chans=1),
    "3d_patch_4": dict(VOLUMES, **SMALL, img_size=[8, 16, 8], patch_size=[2, 8, 4], feature_size=2, num_classes=3),
    "2d_resize": dict(IMAGES, img_size=[24, 18], patch_size=[6, 6], depth=6),
    "3d_resize": dict(VOLUMES, **SMALL, img_size=[8, 12, 8], patch_size=[4, 4, 4], upsample="resize"),
    "2d_no_skip": dict(IMAGES, **SMALL, skip_connection=False),
    "3d_no_skip": dict(VOLUMES, **SMALL, img_size=[8, 16, 8], patch_size=[4, 8, 4], skip_connection=False,
                       feature_size=2),
    "3d_no_skip_resize": dict(VOLUMES, **SMALL, img_size=[6, 9, 6], patch_size=[3, 3, 3], skip_connection=False,
                              feature_size=2),
    "2d_linear": dict(IMAGES, **SMALL, img_size=[24, 20], patch_size=[6, 5], linear_decoder=True),
    "3d_linear": dict(VOLUMES, **SMALL, img_size=[8, 12, 6], patch_size=[4, 4, 3], linear_decoder=True, num_classes=3),
}
UNETR_KEYS = ("num_classes", "feature_size", "skip_connection", "linear_decoder", "res_block", "conv_block", "upsample")


def vit_of(config):
    return ViT(in_channels=config["in_chans"], img_size=config["img_size"], patch_size=config["patch_size"],
               hidden_size=config["embed_dim"], mlp_dim=2 * config["embed_dim"], num_layers=config["depth"],
               num_heads=config["num_heads"], spatial_dims=len(config["img_size"]), qkv_bias=config.get("qkv_bias", False))


def stage_strides(config):
    """By how much the four upsamplings grow each side: powers of two, the last ones first; UCF-VIT's doublings."""
    resize = config.get("upsample") == "resize" or any(p & (p - 1) for p in config["patch_size"])
    resize = resize and any(p != 16 for p in config["patch_size"])
    last = 1 if config.get("skip_connection", True) else 2
    stages = []
    for stage in range(4):
        exponents = [((p.bit_length() - 1) + stage) // 4 for p in config["patch_size"]]
        doubling = 2 if stage < 3 else last
        stages.append([doubling if resize else 2**e for e in exponents])
    return stages, resize


class Variant(nn.Module):
    """MONAI's ViT and blocks, put together for any patch size."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.vit = vit_of(config)
        dims, f, width = len(config["img_size"]), config["feature_size"], config["embed_dim"]
        self.grid = [s // p for s, p in zip(config["img_size"], config["patch_size"])]
        self.strides, self.resize = stage_strides(config)
        if config.get("linear_decoder"):
            self.head = nn.Linear(width, config["num_classes"])
            return
        channels = [width, 8 * f, 4 * f, 2 * f, f]
        if not config.get("skip_connection", True):
            for stage in range(4):
                block = nn.Module()
                block.transp_conv = get_conv_layer(
                    dims, channels[stage], channels[stage + 1], kernel_size=self.strides[stage],
                    stride=self.strides[stage], conv_only=True, is_transposed=True)
                setattr(self, f"decoder{5 - stage}", block)
        else:
            common = dict(spatial_dims=dims, kernel_size=3, norm_name="instance", res_block=True)
            self.encoder1 = UnetrBasicBlock(in_channels=config["in_chans"], out_channels=f, stride=1, **common)
            for stage in range(3):
                skip = UnetrPrUpBlock(in_channels=width, out_channels=channels[stage + 1], num_layer=stage, stride=1,
                                      upsample_kernel_size=self.strides[0], conv_block=True, **common)
                for i in range(stage):  # MONAI has one stride for all
                    skip.blocks[i][0] = get_conv_layer(
                        dims, channels[stage + 1], channels[stage + 1], kernel_size=self.strides[i + 1],
                        stride=self.strides[i + 1], conv_only=True, is_transposed=True)
                setattr(self, f"encoder{4 - stage}", skip)
            for stage in range(4):
                setattr(self, f"decoder{5 - stage}", UnetrUpBlock(
                    in_channels=channels[stage], out_channels=channels[stage + 1],
                    upsample_kernel_size=self.strides[stage], **common))
        self.out = UnetOutBlock(dims, f, config["num_classes"])

    def to_map(self, tokens):
        return tokens.transpose(1, 2).reshape(tokens.shape[0], -1, *self.grid)

    def to_full_size(self, x):
        mode = "trilinear" if len(self.grid) == 3 else "bilinear"
        return F.interpolate(x, size=self.config["img_size"], mode=mode, align_corners=True)

    def forward(self, images):
        tokens, hidden = self.vit(images)
        if self.config.get("linear_decoder"):
            return self.to_full_size(self.to_map(self.head(tokens)))
        x = self.to_map(tokens)
        if not self.config.get("skip_connection", True):
            for name in ("decoder5", "decoder4", "decoder3", "decoder2"):
                x = getattr(self, name).transp_conv(x)
            return self.out(self.to_full_size(x) if self.resize else x)
        quarter = self.config["depth"] // 4
        for stage in range(3):
            skip = getattr(self, f"encoder{4 - stage}")(self.to_map(hidden[(3 - stage) * quarter]))
            x = getattr(self, f"decoder{5 - stage}")(x, skip)
        if self.resize:
            x = self.to_full_size(x)
        return self.out(self.decoder2(x, self.encoder1(images)))


def build(config):
    if "depth" in config:
        return Variant(config)
    return UNETR(in_channels=config["in_chans"], out_channels=config["num_classes"], img_size=config["img_size"],
                 feature_size=config["feature_size"], hidden_size=config["embed_dim"], mlp_dim=2 * config["embed_dim"],
                 num_heads=config["num_heads"], proj_type=config.get("proj_type", "conv"), norm_name="instance",
                 conv_block=config.get("conv_block", True), res_block=config.get("res_block", True),
                 spatial_dims=len(config["img_size"]), qkv_bias=config.get("qkv_bias", False))


def randomise(model, generator):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name and name.endswith("weight"):
                parameter.copy_(1.0 + 0.3 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.3 * noise)
            elif name.endswith("position_embeddings"):
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(1.2 * noise / parameter[0].numel() ** 0.5)
            parameter.copy_(parameter.half())  # stored in half the bytes


def make(case, config):
    generator = torch.Generator().manual_seed(sum(map(ord, case)))
    model = build(config)
    randomise(model, generator)
    # Unused without cross-attention; not in Fovea.
    weights = {k: v.half() for k, v in model.state_dict().items() if "norm_cross_attn" not in k}
    images = torch.randn([2, config["in_chans"], *config["img_size"]], generator=generator).half()
    labels = torch.randint(0, config["num_classes"], [2, *config["img_size"]], generator=generator)
    if len(config["img_size"]) == 3 and "depth" not in config:  # the file stays small
        images, labels = images[:1], labels[:1]
    model.double()
    output = model(images.double())
    loss = F.cross_entropy(output, labels)
    loss.backward()
    tensors = {"input": images, "labels": labels.to(torch.uint8), "logits": output.detach().float(),
               "loss": loss.detach().float()}
    tensors.update({"weights/" + k: v for k, v in weights.items()})
    tensors.update({"gradients/" + k: v.grad.float() for k, v in model.named_parameters()
                    if "norm_cross_attn" not in k})
    encoder = {key: value for key, value in config.items() if key not in UNETR_KEYS and key != "proj_type"}
    encoder.update(depth=config.get("depth", 12), mlp_ratio=2.0, class_token=False, norm_eps=1e-5,
                   qkv_bias=config.get("qkv_bias", False))
    fovea = {key: config[key] for key in UNETR_KEYS if key in config}
    path = OUT / f"unetr_{case}.safetensors"
    versions = f"monai {monai.__version__}, torch {torch.__version__}"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps({**fovea, "encoder": encoder}),
                        "made_by": f"tools/golden/make_unetr.py, {versions}"})
    print(f"{path.name}: {sum(k.startswith('gradients/') for k in tensors)} gradients, loss {loss.item():.6f}, "
          f"{path.stat().st_size} bytes")
    assert path.stat().st_size < 300_000, path


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or CASES:
        make(chosen, CASES[chosen])
