"""Goldens for fovea/models/mae and its task.

"hf_*": Hugging Face's ViTMAEForPreTraining, whose state_dict and gradients are renamed to the original checkpoints'
names (facebookresearch/mae, models_mae.py) by the published correspondence: blocks.N.attn.qkv is query, key and value
stacked. The noise is given, so that the mask is known. "volume*" and "linear*": a plain ViT of this file with the same
names (conv3d, one softmax a head), as no library has MAE for volumes.

Each file holds Fovea's config (metadata), weights, input, the kept patches, the mask, predictions, loss and every
gradient. Weights are random and never zero or one. Needs transformers 4.57.1 (with tokenizers 0.22.1 and
huggingface-hub 0.36.0), torch 2.11.0, safetensors.

    python tools/golden/make_mae.py [case ...]
"""
import json
import pathlib
import re
import sys

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

import pos_embed

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
BATCH = 3

ENCODER = dict(img_size=[16], patch_size=[4], in_chans=3, embed_dim=24, depth=2, num_heads=2, mlp_ratio=2.0,
               norm_eps=1e-6, pos_embed="sincos")
DECODER = dict(decoder_embed_dim=16, decoder_depth=1, decoder_num_heads=2, decoder_mlp_ratio=2.0)
VOLUME = dict(ENCODER, img_size=[8, 8, 12], patch_size=[4, 4, 6], in_chans=2, depth=1, norm_eps=1e-5)

CASES = {
    "hf_base": dict(model=dict(DECODER, encoder=ENCODER, mask_ratio=0.75), task=dict(), dtype="float64"),
    "hf_norm_pix": dict(
        model=dict(encoder=dict(ENCODER, img_size=[24], patch_size=[4], in_chans=1, norm_eps=1e-5), mask_ratio=0.6,
                   decoder_embed_dim=20, decoder_depth=2, decoder_num_heads=5, decoder_mlp_ratio=3.0,
                   decoder_norm_eps=1e-3),
        task=dict(norm_pix_loss=True), dtype="float64"),
    "hf_no_qkv_bias": dict(
        model=dict(DECODER, encoder=dict(ENCODER, qkv_bias=False, act_layer="relu"), mask_ratio=0.5),
        task=dict(norm_pix_loss=True), dtype="float32"),
    "volume": dict(
        model=dict(encoder=dict(VOLUME, reg_tokens=2), mask_ratio=0.5, decoder_embed_dim=12, decoder_depth=2,
                   decoder_num_heads=3, decoder_mlp_ratio=2.0, decoder_pos_embed="sincos_learn",
                   decoder_norm_eps=1e-4),
        task=dict(norm_pix_loss=True), dtype="float64"),
    "volume_all": dict(
        model=dict(encoder=dict(VOLUME, class_token=False, pos_embed="learn"), mask_ratio=0.7, decoder_embed_dim=16,
                   decoder_depth=1, decoder_num_heads=2, decoder_mlp_ratio=2.0, decoder_pos_embed="learn"),
        task=dict(loss_on="all"), dtype="float64"),
    "linear": dict(
        model=dict(encoder=dict(VOLUME, img_size=[8, 12], patch_size=[4, 6]), mask_ratio=0.5, linear_decoder=True),
        task=dict(loss_on="all"), dtype="float64"),
}


def sides(values, count):
    return list(values) * count if len(values) == 1 else list(values)


def randomise(name, shape, generator):
    noise = torch.randn(shape, generator=generator)
    if name.endswith("norm.weight") or re.search(r"norm\d\.weight$", name):
        return 1.0 + 0.3 * noise
    if len(shape) == 1:
        return 0.3 * noise
    if name.endswith(("pos_embed", "token")):
        return 0.5 * noise
    return 1.2 * noise / float(np.prod(shape[1:])) ** 0.5


# Hugging Face's names and the published ones.

def published_names(prefix, layer):
    """Pairs of Hugging Face's and the published name inside one block; q, k and v apart."""
    pairs = [("layernorm_before", "norm1"), ("layernorm_after", "norm2"), ("intermediate.dense", "mlp.fc1"),
             ("output.dense", "mlp.fc2"), ("attention.output.dense", "attn.proj")]
    return [(f"{layer}.{theirs}.{kind}", f"{prefix}.{ours}.{kind}")
            for theirs, ours in pairs for kind in ("weight", "bias")]


def to_published(tensors, depth, decoder_depth):
    """A state_dict or gradients of ViTMAEForPreTraining under the original checkpoints' names."""
    left = dict(tensors)
    out = {}

    def take(theirs, ours):
        if theirs in left:
            out[ours] = left.pop(theirs)

    embeddings = "vit.embeddings."
    take(embeddings + "cls_token", "cls_token")
    take(embeddings + "position_embeddings", "pos_embed")
    for kind in ("weight", "bias"):
        take(f"{embeddings}patch_embeddings.projection.{kind}", f"patch_embed.proj.{kind}")
        take(f"vit.layernorm.{kind}", f"norm.{kind}")
        for name in ("decoder_embed", "decoder_norm", "decoder_pred"):
            take(f"decoder.{name}.{kind}", f"{name}.{kind}")
    take("decoder.mask_token", "mask_token")
    take("decoder.decoder_pos_embed", "decoder_pos_embed")
    layers = [(f"vit.encoder.layer.{i}", f"blocks.{i}") for i in range(depth)]
    layers += [(f"decoder.decoder_layers.{i}", f"decoder_blocks.{i}") for i in range(decoder_depth)]
    for layer, block in layers:
        for theirs, ours in published_names(block, layer):
            take(theirs, ours)
        for kind in ("weight", "bias"):
            parts = [left.pop(f"{layer}.attention.attention.{part}.{kind}", None) for part in ("query", "key", "value")]
            if parts[0] is not None:
                out[f"{block}.attn.qkv.{kind}"] = torch.cat(parts)
    assert not left, sorted(left)
    return out


def hugging_face(model, task, dtype, generator):
    encoder = model["encoder"]
    config = transformers.ViTMAEConfig(
        image_size=encoder["img_size"][0], patch_size=encoder["patch_size"][0], num_channels=encoder["in_chans"],
        hidden_size=encoder["embed_dim"], num_hidden_layers=encoder["depth"],
        num_attention_heads=encoder["num_heads"], intermediate_size=int(encoder["embed_dim"] * encoder["mlp_ratio"]),
        layer_norm_eps=encoder["norm_eps"], qkv_bias=encoder.get("qkv_bias", True),
        hidden_act=encoder.get("act_layer", "gelu"), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        decoder_hidden_size=model["decoder_embed_dim"], decoder_num_hidden_layers=model["decoder_depth"],
        decoder_num_attention_heads=model["decoder_num_heads"],
        decoder_intermediate_size=int(model["decoder_embed_dim"] * model["decoder_mlp_ratio"]),
        mask_ratio=model["mask_ratio"], norm_pix_loss=task.get("norm_pix_loss", False))
    config._attn_implementation = "sdpa"  # the eager one takes its softmax in float32
    net = transformers.ViTMAEForPreTraining(config)
    net.decoder.initialize_weights(net.vit.embeddings.num_patches)  # its table, which post_init sets to zero
    net.decoder.decoder_norm.eps = model.get("decoder_norm_eps", 1e-6)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.requires_grad:  # the sin-cos tables stay theirs
                parameter.copy_(randomise(name.replace("layernorm_before", "norm1").replace("layernorm_after", "norm2")
                                          .replace("layernorm", "norm"), parameter.shape, generator))
    names = (encoder["depth"], model["decoder_depth"])
    weights = to_published({k: v.clone() for k, v in net.state_dict().items()}, *names)
    net = net.to(dtype).eval()
    side = encoder["img_size"][0]
    images = torch.randn([BATCH, encoder["in_chans"], side, side], generator=generator)
    noise = torch.rand([BATCH, (side // encoder["patch_size"][0]) ** 2], generator=generator)
    output = net(images.to(dtype), noise=noise.to(dtype))
    output.loss.backward()
    gradients = to_published({k: v.grad for k, v in net.named_parameters() if v.grad is not None}, *names)
    num_keep = int((output.mask[0] == 0).sum())
    return weights, gradients, {
        "input": images, "ids_keep": output.ids_restore.argsort(1)[:, :num_keep], "mask": output.mask.float(),
        "predictions": output.logits, "loss": output.loss}


# The plain reference.

def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def norm(x, w, name, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * w[name + ".weight"] + w[name + ".bias"]


def block(x, w, name, num_heads, eps):
    y = linear(norm(x, w, name + ".norm1", eps), w, name + ".attn.qkv")
    query, key, value = y.chunk(3, -1)
    heads = []
    for q, k, v in zip(query.chunk(num_heads, -1), key.chunk(num_heads, -1), value.chunk(num_heads, -1)):
        heads.append(torch.softmax(q @ k.transpose(1, 2) / q.shape[-1] ** 0.5, -1) @ v)
    x = x + linear(torch.cat(heads, -1), w, name + ".attn.proj")
    return x + linear(F.gelu(linear(norm(x, w, name + ".norm2", eps), w, name + ".mlp.fc1")), w, name + ".mlp.fc2")


def plain_shapes(model, num_patches):
    """Names and shapes of the plain reference's parameters: those of the original checkpoints."""
    encoder = model["encoder"]
    dim, prefix = encoder["embed_dim"], encoder.get("reg_tokens", 0) + encoder.get("class_token", True)
    patch = encoder["patch_size"]
    pixels = int(np.prod(patch)) * encoder["in_chans"]
    is_linear = model.get("linear_decoder", False)
    width = dim if is_linear else model["decoder_embed_dim"]
    shapes = {}
    if encoder.get("class_token", True):
        shapes["cls_token"] = [1, 1, dim]
    if encoder.get("reg_tokens"):
        shapes["reg_token"] = [1, encoder["reg_tokens"], dim]
    shapes["pos_embed"] = [1, prefix + num_patches, dim]
    shapes["patch_embed.proj.weight"] = [dim, encoder["in_chans"], *patch]
    shapes["patch_embed.proj.bias"] = [dim]

    def add_linear(name, wide, narrow):
        shapes[name + ".weight"], shapes[name + ".bias"] = [wide, narrow], [wide]

    def add_norm(name, size):
        shapes[name + ".weight"], shapes[name + ".bias"] = [size], [size]

    stacks = [("blocks", encoder["depth"], dim, encoder["mlp_ratio"])]
    if not is_linear:
        stacks.append(("decoder_blocks", model["decoder_depth"], width, model["decoder_mlp_ratio"]))
    for stack, depth, size, ratio in stacks:
        for i in range(depth):
            name = f"{stack}.{i}."
            add_norm(name + "norm1", size)
            add_linear(name + "attn.qkv", 3 * size, size)
            add_linear(name + "attn.proj", size, size)
            add_norm(name + "norm2", size)
            add_linear(name + "mlp.fc1", int(size * ratio), size)
            add_linear(name + "mlp.fc2", size, int(size * ratio))
    add_norm("norm", dim)
    shapes["mask_token"] = [1, 1, width]
    if not is_linear:
        add_linear("decoder_embed", width, dim)
        shapes["decoder_pos_embed"] = [1, prefix + num_patches, width]
        add_norm("decoder_norm", width)
    add_linear("decoder_pred", pixels, width)
    return shapes


def plain_patches(images, patch):
    """Each patch by itself, cut out of the image, channels last."""
    rows = []
    for corner in np.ndindex(*[s // p for s, p in zip(images.shape[2:], patch)]):
        box = [slice(c * p, c * p + p) for c, p in zip(corner, patch)]
        rows.append(images[(slice(None), slice(None), *box)].movedim(1, -1).flatten(1))
    return torch.stack(rows, 1)


def plain_predict(model, w, images, kept):
    encoder = model["encoder"]
    patch, eps = encoder["patch_size"], encoder["norm_eps"]
    conv = F.conv3d if len(patch) == 3 else F.conv2d
    x = conv(images, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=tuple(patch))
    x = x.flatten(2).transpose(1, 2)
    num_patches = x.shape[1]
    tokens = [w[name] for name in ("cls_token", "reg_token") if name in w]
    prefix = torch.cat(tokens, 1) if tokens else x[:1, :0]
    num_prefix = prefix.shape[1]
    x = x + w["pos_embed"][:, num_prefix:]
    prefix = (prefix + w["pos_embed"][:, :num_prefix]).expand(x.shape[0], -1, -1)
    x = torch.stack([row[ids] for row, ids in zip(x, kept)])
    x = torch.cat([prefix, x], 1)
    for i in range(encoder["depth"]):
        x = block(x, w, f"blocks.{i}", encoder["num_heads"], eps)
    x = norm(x, w, "norm", eps)
    is_linear = model.get("linear_decoder", False)
    if not is_linear:
        x = linear(x, w, "decoder_embed")
    rows = []
    for tokens_of_one, ids in zip(x, kept):  # every place by itself
        places = [w["mask_token"][0, 0]] * num_patches
        for token, place in zip(tokens_of_one[num_prefix:], ids.tolist()):
            places[place] = token
        rows.append(torch.stack([*tokens_of_one[:num_prefix], *places]))
    x = torch.stack(rows)
    if not is_linear:
        x = x + w["decoder_pos_embed"]
        for i in range(model["decoder_depth"]):
            x = block(x, w, f"decoder_blocks.{i}", model["decoder_num_heads"], eps)
        x = norm(x, w, "decoder_norm", model.get("decoder_norm_eps", 1e-6))
    return linear(x, w, "decoder_pred")[:, num_prefix:]


def plain(model, task, dtype, generator):
    encoder = model["encoder"]
    grid = [s // p for s, p in zip(encoder["img_size"], encoder["patch_size"])]
    num_patches = int(np.prod(grid))
    weights = {name: randomise(name, shape, generator) for name, shape in plain_shapes(model, num_patches).items()}
    num_prefix = encoder.get("reg_tokens", 0) + encoder.get("class_token", True)
    fixed = set()
    if encoder["pos_embed"] == "sincos":
        weights["pos_embed"] = pos_embed.sincos(grid, encoder["embed_dim"], num_prefix).float()
        fixed.add("pos_embed")
    w = {name: value.to(dtype).requires_grad_(name not in fixed) for name, value in weights.items()}
    images = torch.randn([BATCH, encoder["in_chans"], *encoder["img_size"]], generator=generator)
    noise = torch.rand([BATCH, num_patches], generator=generator)
    kept = noise.argsort(1)[:, :int(num_patches * (1 - model["mask_ratio"]))]
    mask = torch.stack([torch.tensor([float(i not in ids.tolist()) for i in range(num_patches)]) for ids in kept])
    predictions = plain_predict(model, w, images.to(dtype), kept)
    target = plain_patches(images.to(dtype), encoder["patch_size"])
    if task.get("norm_pix_loss"):
        centred = target - target.mean(-1, keepdim=True)
        variance = centred.square().sum(-1, keepdim=True) / (target.shape[-1] - 1)
        target = centred / (variance + 1e-6).sqrt()
    errors = (predictions - target).square().mean(-1)
    counted = torch.ones_like(mask) if task.get("loss_on") == "all" else mask
    loss = (errors * counted).sum() / counted.sum()
    loss.backward()
    gradients = {name: value.grad for name, value in w.items() if value.grad is not None}
    return weights, gradients, {"input": images, "ids_keep": kept, "mask": mask, "predictions": predictions,
                                "loss": loss}


def make(case):
    spec = CASES[case]
    torch.manual_seed(0)  # Hugging Face initialises before we randomise
    generator = torch.Generator().manual_seed(sum(map(ord, case)))
    maker = hugging_face if case.startswith("hf_") else plain
    weights, gradients, tensors = maker(spec["model"], spec["task"], getattr(torch, spec["dtype"]), generator)
    tensors.update({"weights/" + k: v for k, v in weights.items()})
    tensors.update({"gradients/" + k: v for k, v in gradients.items()})
    tensors = {k: v.detach().contiguous() for k, v in tensors.items()}
    assert all(torch.isfinite(t).all() for t in tensors.values()), case
    assert all(t.abs().max() > 0 for name, t in tensors.items() if name.startswith("weights/")), case
    path = OUT / f"mae_{case}.safetensors"
    made_by = f"tools/golden/make_mae.py, torch {torch.__version__}"
    if maker is hugging_face:
        made_by += f", transformers {transformers.__version__}"
    save_file(tensors, path, metadata={"config": json.dumps(spec), "made_by": made_by})
    assert path.stat().st_size < 300_000, (path, path.stat().st_size)
    print(f"{path.name}: {len(weights)} weights, {len(gradients)} gradients, loss {tensors['loss'].item():.6f}, "
          f"{path.stat().st_size} bytes")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for chosen in sys.argv[1:] or CASES:
        make(chosen)
