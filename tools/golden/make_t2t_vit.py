"""Goldens for fovea/models/t2t_vit: the authors' T2T-ViT (yitu-opensource/T2T-ViT, commit 0f63dc9) on tiny configurations.

The authors' code is not part of this repository: give the folder of a clone. It was written for timm 0.3.4; the modules of timm
that it imports have moved since, and that alone is mended here. Each file holds the config (metadata), the model's own state_dict
("weights/"), the input, every named intermediate, logits, loss and every gradient. Needs timm 1.0.31, torch 2.11.0, safetensors.

    python tools/golden/make_t2t_vit.py CLONE
"""
import ast
import functools
import json
import logging
import math
import pathlib
import sys
import types

import timm
import timm.layers
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.layers import DropPath
from torch import nn

from make_vit import MaskedDropout, ROWS

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
SMOOTHING = 0.1
DEFAULTS = dict(img_size=[32], in_chans=3, num_classes=10, token_attention="performer", token_dim=8, embed_dim=24, depth=2,
                num_heads=3, mlp_ratio=2.0)
CASES = {
    "performer": dict(in_chans=1),
    "performer_f64": dict(img_size=[16], in_chans=1, depth=1, dtype="float64"),
    "transformer": dict(token_attention="transformer", token_dim=6, in_chans=1),
    "transformer_f64": dict(token_attention="transformer", img_size=[16], in_chans=1, depth=1, dtype="float64",
                            qk_scale="embed_dim"),
    "biased": dict(img_size=[16], qkv_bias=True, qk_scale="embed_dim", num_classes=0),
    "dense_splits": dict(img_size=[12], in_chans=1, split_kernels=[7, 3, 5], split_strides=[2, 2, 1],
                         split_paddings=[3, 1, 2], norm_eps=1e-3),
    "drops": dict(train=True, img_size=[16], pos_drop_rate=0.25, proj_drop_rate=0.25, attn_drop_rate=0.125,
                  drop_path_rate=0.5),
    "drops_transformer": dict(train=True, img_size=[16], token_attention="transformer", token_drop_rate=0.25),
}


def load_upstream(clone):
    sys.modules["timm.models.layers"] = timm.layers
    for name in ("timm.models.helpers", "timm.models.registry"):
        sys.modules[name] = timm.models
    package = types.ModuleType("upstream")  # its __init__ imports variants that are not needed
    package.__path__ = [str(pathlib.Path(clone) / "models")]
    sys.modules["upstream"] = package
    from upstream import t2t_vit
    return t2t_vit


def load_resize(clone):
    """resize_pos_embed of utils.py alone: the file as a whole asks for a terminal."""
    tree = ast.parse((pathlib.Path(clone) / "utils.py").read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", "") == "resize_pos_embed"]
    scope = dict(math=math, F=F, torch=torch, _logger=logging.getLogger("upstream"))
    exec(compile(tree, "utils.py", "exec"), scope)
    return scope["resize_pos_embed"]


def build(upstream, config):
    args = {key: config[key] for key in ("in_chans", "num_classes", "token_dim", "embed_dim", "depth", "num_heads", "mlp_ratio")}
    assert config.get("pos_drop_rate", 0) == config.get("proj_drop_rate", 0)  # one rate upstream
    scale = config["embed_dim"] ** -0.5 if config.get("qk_scale") == "embed_dim" else None
    model = upstream.T2T_ViT(
        img_size=config["img_size"][0], tokens_type=config["token_attention"], qkv_bias=config.get("qkv_bias", False),
        qk_scale=scale, drop_rate=config.get("proj_drop_rate", 0.0), attn_drop_rate=config.get("attn_drop_rate", 0.0),
        drop_path_rate=config.get("drop_path_rate", 0.0), **args)
    tokens = model.tokens_to_token
    if "split_strides" in config:
        side, width = config["img_size"][0], tokens.project.in_features // 9
        for i, (kernel, stride, padding) in enumerate(
                zip(config["split_kernels"], config["split_strides"], config["split_paddings"])):
            setattr(tokens, f"soft_split{i}", nn.Unfold((kernel, kernel), stride=(stride, stride), padding=(padding, padding)))
            side = (side + 2 * padding - kernel) // stride + 1
        tokens.project = nn.Linear(width * kernel * kernel, config["embed_dim"])
        table = upstream.get_sinusoid_encoding(side * side + 1, config["embed_dim"])
        model.pos_embed = nn.Parameter(table, requires_grad=False)
    if "token_drop_rate" in config:
        for module in tokens.modules():
            if isinstance(module, nn.Dropout):
                module.p = config["token_drop_rate"]
        for attention in (tokens.attention1, tokens.attention2):
            if hasattr(attention, "attn"):
                attention.attn.attn_drop.p = 0.0
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = config.get("norm_eps", 1e-5)
    return model


def randomise(model, generator):
    """Random values everywhere, on the scale of a trained model; also where nothing is trained."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if "norm" in name and name.endswith("weight"):
                parameter.copy_(1.0 + 0.3 * noise)
            elif parameter.ndim == 1:
                parameter.copy_(0.3 * noise)
            elif name in ("pos_embed", "cls_token"):
                parameter.copy_(0.5 * noise)
            else:
                parameter.copy_(1.2 * noise / parameter[0].numel() ** 0.5)


class TwiceMaskedDropout(MaskedDropout):
    """One module of upstream's that is called twice, and has two names in Fovea: NAME1 and NAME2."""

    def __init__(self, name, rate, whole_sample):
        super().__init__(name, rate, whole_sample)
        self.base = name

    def forward(self, x):
        self.count = getattr(self, "count", 0) + 1
        self.name, self.calls = f"{self.base}{self.count}", 0
        return super().forward(x)


def install_masks(model):
    for name, module in list(model.named_modules()):
        if not isinstance(module, (nn.Dropout, DropPath)):
            continue
        is_path = isinstance(module, DropPath)
        is_twice = is_path or name.endswith("mlp.drop")
        kind = TwiceMaskedDropout if is_twice else MaskedDropout
        owner, _, leaf = name.rpartition(".")
        rate = module.drop_prob if is_path else module.p
        setattr(model.get_submodule(owner), leaf, kind(name, rate, is_path))


def record_intermediates(model):
    kept = {}
    skipped = (nn.Identity, nn.Dropout, DropPath, MaskedDropout, nn.ModuleList, nn.Unfold)

    def keep(name, module, inputs, output):
        kept[name] = output.detach().clone()

    for name, module in model.named_modules():
        if name and not isinstance(module, skipped):
            module.register_forward_hook(functools.partial(keep, name))
    return kept


def make(upstream, case, overrides):
    config = {**DEFAULTS, **overrides}
    generator = torch.Generator().manual_seed(sum(map(ord, case)))
    dtype = getattr(torch, config.get("dtype", "float32"))
    model = build(upstream, config)
    randomise(model, generator)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model = model.to(dtype)
    if config.get("train"):
        install_masks(model)
    model.train(bool(config.get("train")))
    kept = record_intermediates(model)
    images = torch.randn([2, config["in_chans"], *config["img_size"] * 2], generator=generator)
    labels = torch.randint(0, 10, [2], generator=generator)
    to_float = torch.Tensor.float
    if dtype == torch.float64:
        torch.Tensor.float = lambda self: self  # the performer's sums are float32 otherwise
    output = model(images.to(dtype))
    torch.Tensor.float = to_float
    loss = (F.cross_entropy(output, labels, label_smoothing=SMOOTHING) if config["num_classes"] else output.square().mean())
    loss.backward()
    tensors = {"input": images, "labels": labels, "logits": output.detach(), "loss": loss.detach()}
    tensors.update({"weights/" + k: v for k, v in weights.items()})
    tensors.update({"intermediates/" + k: v for k, v in kept.items()})
    tensors.update({"gradients/" + k: v.grad for k, v in model.named_parameters() if v.grad is not None})
    if config.get("train"):
        tensors["rows"] = torch.tensor(ROWS)
    assert all(torch.isfinite(t).all() for t in tensors.values()), case
    write(f"t2t_vit_{case}.safetensors", tensors, config)
    print(f"  {len(kept)} intermediates, {sum(k.startswith('gradients/') for k in tensors)} gradients, loss {loss.item():.6f}")


def write(name, tensors, config):
    path = OUT / name
    versions = f"T2T-ViT 0f63dc9, timm {timm.__version__}, torch {torch.__version__}"
    save_file({k: v.contiguous() for k, v in tensors.items()}, path,
              metadata={"config": json.dumps(config), "made_by": f"tools/golden/make_t2t_vit.py, {versions}"})
    assert path.stat().st_size < 300_000, (path, path.stat().st_size)
    print(f"{path.name}: {path.stat().st_size} bytes")


def make_tables(upstream, resize):
    """Position tables, the same resized, and the number of parameters of every size."""
    generator = torch.Generator().manual_seed(5)
    saved = torch.randn([1, 1 + 16, 24], generator=generator)
    tensors = {"sinusoid/24": upstream.get_sinusoid_encoding(17, 24), "sinusoid/7": upstream.get_sinusoid_encoding(300, 7),
               "saved": saved, "larger": resize(saved, torch.empty(1, 1 + 36, 24)),
               "smaller": resize(saved, torch.empty(1, 1 + 4, 24))}
    counts = {}
    for name in [key for key in vars(upstream) if key.startswith("t2t_vit_")]:
        model = getattr(upstream, name)()
        counts[name] = [sum(p.numel() for p in model.parameters()),
                        sum(p.numel() for p in model.parameters() if p.requires_grad)]
    write("t2t_vit_tables.safetensors", tensors, {"counts": counts})


if __name__ == "__main__":
    torch.set_num_threads(1)
    code = load_upstream(sys.argv[1])
    for chosen, changes in CASES.items():
        make(code, chosen, changes)
    make_tables(code, load_resize(sys.argv[1]))
