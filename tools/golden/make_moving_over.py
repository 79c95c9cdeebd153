"""Goldens for init.optimizer: runs of other systems that are stopped, and ten further steps of each in float64.

tests/golden/moving/ holds what they leave behind: a checkpoint as timm's CheckpointSaver writes it, with layer decay
too; a file of torch.save in the old format with a Hugging Face model, whose query, key and value are one parameter each;
folders of torch.distributed.checkpoint as torch's get_state_dict, its flattened form below a key "app", and BioNeMo's
recipe write them, with blocks of TransformerEngine too. tests/golden/moving_*.safetensors: batches, losses, learning rates, and the weights and moments that
the ten steps end with. Every parameter is random before the first step, so that swapped moments, a permuted index or a
lost count of steps shows.

timm 1.0.31, torch 2.11.0, transformers 5.23.0; from --upstream DIR/vit.py NVIDIA/bionemo-framework 3a9d005
bionemo-recipes/recipes/vit/vit.py.

    python tools/golden/make_moving_over.py --upstream DIR
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import warnings

import timm
import torch
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from safetensors.torch import save_file
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import CheckpointSaver, ModelEmaV3
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
FILES = OUT / "moving"
SIDE, PATCH, DIM, DEPTH, HEADS, CLASSES = 8, 4, 8, 2, 2, 5
BEFORE, AFTER, BATCH = 7, 10, 6
EPS = 1e-4  # large, so that the bias of keys, whose gradient is zero but for rounding, stays where it is
VIT = dict(img_size=SIDE, patch_size=PATCH, in_chans=1, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=2.0,
           num_classes=CLASSES)
# As train.py of timm leaves them, as far as their types go.
TIMM_ARGS = dict(
    data_dir="data", dataset="", model="vit_tiny", pretrained=False, img_size=None, input_size=None, opt="adamw", opt_eps=EPS,
    opt_betas=[0.9, 0.95], lr=0.01, weight_decay=0.05, clip_grad=None, sched="cosine", decay_milestones=[90, 180, 270],
    opt_kwargs={}, model_kwargs={"a": 1}, epochs=300, aa=None, color_jitter=0.4, scale=[0.08, 1.0], amp=False,
    device="cuda:0", world_size=1, rank=0, distributed=False, prefetcher=True, wandb_tags=[])


def normal(generator, *shape):
    return torch.randn(*shape, generator=generator)


def randomise(model, generator):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = 0.3 * normal(generator, *parameter.shape)
            parameter.copy_(noise + 1 if "norm" in name and name.endswith("weight") else noise)
    return model


class Run:
    """Steps of one optimizer on batches that are drawn one by one; `rate(step)` sets the learning rates."""

    def __init__(self, model, optimizer, rate, seed, max_norm=0.0, logits=lambda out: out):
        self.model, self.optimizer, self.rate, self.max_norm, self.logits = model, optimizer, rate, max_norm, logits
        self.generator, self.step, self.ema = torch.Generator().manual_seed(seed), 0, None
        self.images, self.labels, self.losses, self.rates = [], [], [], []

    def take(self, count):
        self.images, self.labels, self.losses, self.rates = [], [], [], []
        for _ in range(count):
            images, labels = normal(self.generator, BATCH, 1, SIDE, SIDE), torch.randint(0, CLASSES, (BATCH,), generator=self.generator)
            self.rates.append(self.rate(self.step))
            loss = F.cross_entropy(self.logits(self.model(images.to(next(self.model.parameters()).dtype))), labels)
            self.optimizer.zero_grad()
            loss.backward()
            if self.max_norm:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
            self.optimizer.step()
            if self.ema is not None:
                self.ema.update(self.model, step=self.step)
            self.step += 1
            self.images.append(images)
            self.labels.append(labels)
            self.losses.append(loss.item())

    def to_double(self):
        self.model.double()
        for state in self.optimizer.state.values():
            for moment in set(state) - {"step"}:
                state[moment] = state[moment].double()
        if self.ema is not None:
            self.ema.double()


def write(name, run, config, names):
    """names(tensors of the foreign names) -> Fovea's: the system's own conversion, or nothing to do."""
    run.to_double()
    run.take(AFTER)
    parameters = dict(run.model.named_parameters())
    kinds = sorted(set(run.optimizer.state[next(iter(parameters.values()))]) - {"step"})
    of = {kind: {n: run.optimizer.state[p][kind] for n, p in parameters.items()} for kind in kinds}
    tensors = {f"final/{n}": t for n, t in names({n: p.detach() for n, p in parameters.items()}).items()}
    for kind, moments in of.items():
        tensors |= {f"state/{kind}/{n}": t for n, t in names(moments).items()}
    if run.ema is not None:
        tensors |= {f"ema/{n}": t for n, t in names(dict(run.ema.module.named_parameters())).items()}
    tensors = {n: t.detach().float().contiguous().clone() for n, t in tensors.items()}
    tensors |= {"images": torch.stack(run.images), "labels": torch.stack(run.labels),
                "losses": torch.tensor(run.losses, dtype=torch.float64), "rates": torch.tensor(run.rates, dtype=torch.float64)}
    path = OUT / f"moving_{name}.safetensors"
    config = dict(config, steps=BEFORE, max_grad_norm=run.max_norm)
    versions = {"torch": torch.__version__, "timm": timm.__version__, "maker": "tools/golden/make_moving_over.py"}
    save_file(tensors, path, metadata={"config": json.dumps(config), "versions": json.dumps(versions)})
    print(name, [round(loss, 3) for loss in run.losses], path.stat().st_size)


def timm_run(seed, weight_decay, layer_decay=None, opt="adamw", settings=None, **more):
    """opt: timm's name of the optimizer; settings: its own, as timm and Fovea call them."""
    model = randomise(VisionTransformer(**(VIT | more)), torch.Generator().manual_seed(seed))
    lr = 0.01
    settings = {"betas": (0.9, 0.95), "eps": EPS} if settings is None else settings
    optimizer = create_optimizer_v2(model, opt, lr=lr, weight_decay=weight_decay, layer_decay=layer_decay, **settings)
    scheduler = CosineLRScheduler(optimizer, t_initial=30, lr_min=1e-4, warmup_t=4, warmup_lr_init=1e-3, t_in_epochs=False)

    def rate(step):
        scheduler.step_update(step)
        group = optimizer.param_groups[-1]
        return group["lr"] / group.get("lr_scale", 1.0)

    config = {"vit": {**VIT, **more, "img_size": [SIDE], "patch_size": [PATCH]},
              "optim": {"lr": lr, **settings, "weight_decay": weight_decay}, "optimizer": {"momentum": "sgd"}.get(opt, opt),
              "schedule": {"total_steps": 30, "min_lr": 1e-4, "warmup_steps": 4, "warmup_lr": 1e-3}}
    if layer_decay:
        config["optim"]["layer_decay"] = layer_decay
    return Run(model, optimizer, rate, seed + 100), config


def save_timm(run, name):
    with tempfile.TemporaryDirectory() as folder:
        saver = CheckpointSaver(run.model, run.optimizer, args=argparse.Namespace(**TIMM_ARGS), model_ema=run.ema,
                                checkpoint_dir=folder, recovery_dir=folder, max_history=2)
        saver.save_checkpoint(0, 61.5)
        saver.save_checkpoint(1, 71.5)
        shutil.copy(pathlib.Path(folder) / "last.pth.tar", FILES / name)


def save_dcp(state, name, threads=1):
    shutil.rmtree(FILES / name, ignore_errors=True)
    writer = dcp.FileSystemWriter(FILES / name, thread_count=threads)
    dcp.save(state, storage_writer=writer, no_dist=True)


def from_timm():
    run, config = timm_run(1, 0.05, reg_tokens=2)
    run.ema = ModelEmaV3(run.model, decay=0.9)
    run.take(BEFORE)
    save_timm(run, "timm.pth.tar")
    write("timm", run, dict(config, ema_decay=0.9), lambda tensors: tensors)

    run, config = timm_run(2, 0.05, layer_decay=0.7, global_pool="avg", fc_norm=True)
    run.take(BEFORE)
    save_timm(run, "timm_layer_decay.pth.tar")
    write("timm_layer_decay", run, config, lambda tensors: tensors)


def from_other_optimizers():
    """SGD of torch, which counts no steps, and timm's LAMB, which counts them in its groups, as a tensor."""
    run, config = timm_run(6, 0.05, opt="momentum", settings={"momentum": 0.9}, depth=1)
    run.take(BEFORE)
    save_timm(run, "timm_sgd.pth.tar")
    write("timm_sgd", run, config, lambda tensors: tensors)

    run, config = timm_run(7, 0.05, opt="lamb", settings={"betas": (0.9, 0.95), "eps": EPS}, depth=1)
    run.take(BEFORE)
    save_timm(run, "timm_lamb.pth.tar")
    write("timm_lamb", run, config, lambda tensors: tensors)


def from_torch():
    run, config = timm_run(5, 0.05, depth=1)
    run.take(BEFORE)
    model, optimizer = get_state_dict(run.model, run.optimizer)
    save_dcp({"model": model, "optimizer": optimizer}, "dcp")
    model, optimizer = get_state_dict(run.model, run.optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    save_dcp({"app": {"model": model, "optim": optimizer}}, "dcp_flat", threads=2)
    write("dcp", run, config, lambda tensors: tensors)


def from_huggingface():
    import transformers as hf
    sizes = dict(hidden_size=DIM, num_hidden_layers=DEPTH, num_attention_heads=HEADS, intermediate_size=2 * DIM, image_size=SIDE,
                 patch_size=PATCH, num_channels=1, num_labels=CLASSES, attn_implementation="eager")
    model = randomise(hf.ViTForImageClassification(hf.ViTConfig(**sizes)), torch.Generator().manual_seed(3))
    lr = 0.005
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, eps=EPS, weight_decay=0.1)
    run = Run(model, optimizer, lambda step: lr, 103, logits=lambda out: out.logits)
    run.take(BEFORE)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": BEFORE}, FILES / "hf_vit.pt",
               _use_new_zipfile_serialization=False)

    def names(tensors):  # of modeling_vit.py, by hand
        out = {}
        for name, tensor in tensors.items():
            name = name.removeprefix("vit.").replace("embeddings.patch_embeddings.projection", "patch_embed.proj")
            name = name.replace("embeddings.cls_token", "cls_token").replace("embeddings.position_embeddings", "pos_embed")
            for there, here in (("encoder.layer.", "blocks."), ("layers.", "blocks."), ("layernorm_before", "norm1"),
                                ("layernorm_after", "norm2"), ("attention.output.dense", "attn.proj"), ("attention.o_proj", "attn.proj"),
                                ("intermediate.dense", "mlp.fc1"), ("output.dense", "mlp.fc2"), ("layernorm", "norm"),
                                ("classifier", "head")):
                name = name.replace(there, here)
            out[name] = tensor
        for block in range(DEPTH):
            for kind in ("weight", "bias"):
                parts = []
                for part in ("query", "key", "value"):
                    found = [n for n in out if n.startswith(f"blocks.{block}.attention.") and n.endswith(f".{kind}")
                             and (part in n or f".{part[0]}_proj." in n)]
                    assert len(found) == 1, (part, found, list(out))
                    parts.append(out.pop(found[0]))
                out[f"blocks.{block}.attn.qkv.{kind}"] = torch.cat(parts)
        return out

    config = {"vit": {**VIT, "img_size": [SIDE], "patch_size": [PATCH], "norm_eps": 1e-12},
              "optim": {"lr": lr, "eps": EPS, "weight_decay": 0.1, "decay_all": True}}
    write("hf_vit", run, config, names)


def from_bionemo(upstream):
    sys.path.insert(0, str(upstream))
    import vit
    options = dict(depth=1, global_pool="map", reg_tokens=2, qk_norm=True, scale_attn_norm=True, scale_mlp_norm=True, pre_norm=True,
                   fc_norm=True, final_norm=True)
    model = randomise(vit.VisionTransformer(**(VIT | options), weight_init=""), torch.Generator().manual_seed(4))
    lr, betas = 0.004, (0.9, 0.98)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=betas, eps=EPS, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)

    def rate(step):
        if step > 0:
            scheduler.step()
        return optimizer.param_groups[0]["lr"]

    run = Run(model, optimizer, rate, 104, max_norm=1.0)
    run.take(BEFORE)
    # Megatron-FSDP's model has the names of the model inside it behind "module.".
    wrapped = {f"module.{name}": tensor for name, tensor in model.state_dict().items()}
    save_dcp({"model": wrapped, "optimizer": optimizer.state_dict()}, "bionemo", threads=2)

    def names(tensors):
        return {name.replace("pos_embed.", "", 1) if name.startswith("pos_embed.") else name: t for name, t in tensors.items()}

    config = {"vit": {**VIT, **options, "img_size": [SIDE], "patch_size": [PATCH], "norm_eps": 1e-5},
              "optim": {"lr": lr, "betas": list(betas), "eps": EPS, "weight_decay": 0.01, "decay_all": True},
              "schedule": {"total_steps": 40}}
    write("bionemo", run, config, names)


class TransformerLayer(torch.nn.Module):
    """TransformerEngine's, which needs a GPU: its parameters, their names and its arithmetic, without its kernels.

    TransformerEngine 2: transformer.py, attention/multi_head_attention.py (qkv_weight_interleaved: [heads, 3, head_dim]),
    module/layernorm_linear.py, module/layernorm_mlp.py, common/util/math.h (gelu is the tanh approximation).
    """

    class LayerNormLinear(torch.nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.layer_norm_weight = torch.nn.Parameter(torch.ones(inputs))
            self.layer_norm_bias = torch.nn.Parameter(torch.zeros(inputs))
            self.weight = torch.nn.Parameter(torch.zeros(outputs, inputs))
            self.bias = torch.nn.Parameter(torch.zeros(outputs))

        def get_extra_state(self):
            return torch.empty(0, dtype=torch.uint8)

        def set_extra_state(self, state):
            del state

        def forward(self, x):
            x = F.layer_norm(x, x.shape[-1:], self.layer_norm_weight, self.layer_norm_bias, 1e-5)
            return F.linear(x, self.weight, self.bias)

    class LayerNormMLP(torch.nn.Module):
        def __init__(self, dim, hidden):
            super().__init__()
            self.layer_norm_weight = torch.nn.Parameter(torch.ones(dim))
            self.layer_norm_bias = torch.nn.Parameter(torch.zeros(dim))
            self.fc1_weight = torch.nn.Parameter(torch.zeros(hidden, dim))
            self.fc1_bias = torch.nn.Parameter(torch.zeros(hidden))
            self.fc2_weight = torch.nn.Parameter(torch.zeros(dim, hidden))
            self.fc2_bias = torch.nn.Parameter(torch.zeros(dim))

        def forward(self, x):
            x = F.layer_norm(x, x.shape[-1:], self.layer_norm_weight, self.layer_norm_bias, 1e-5)
            x = F.gelu(F.linear(x, self.fc1_weight, self.fc1_bias), approximate="tanh")
            return F.linear(x, self.fc2_weight, self.fc2_bias)

    def __init__(self, hidden_size, ffn_hidden_size, num_attention_heads, **others):
        super().__init__()
        assert others["fuse_qkv_params"] and others["activation"] == "gelu" and not others["hidden_dropout"]
        self.heads = num_attention_heads
        self.self_attention = torch.nn.Module()
        self.self_attention.layernorm_qkv = self.LayerNormLinear(hidden_size, 3 * hidden_size)
        self.self_attention.proj = torch.nn.Linear(hidden_size, hidden_size)
        self.layernorm_mlp = self.LayerNormMLP(hidden_size, ffn_hidden_size)

    def forward(self, x):
        batch, tokens, dim = x.shape
        mixed = self.self_attention.layernorm_qkv(x).view(batch, tokens, self.heads, 3, dim // self.heads)
        q, k, v = (part.squeeze(-2).transpose(1, 2) for part in mixed.split(1, dim=-2))
        out = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, dim)
        x = x + self.self_attention.proj(out)
        return x + self.layernorm_mlp(x)


def from_transformer_engine(upstream):
    sys.path.insert(0, str(upstream))
    import vit
    vit._TE_INSTALLED, vit.TransformerLayer = True, TransformerLayer
    model = randomise(vit.VisionTransformer(**VIT, block_fn=TransformerLayer, weight_init=None, tp_group=None, tp_size=1, micro_batch_size=BATCH),
                      torch.Generator().manual_seed(5))
    lr, betas = 0.004, (0.9, 0.98)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=betas, eps=EPS, weight_decay=0.01)
    run = Run(model, optimizer, lambda step: lr, 105)
    run.take(BEFORE)
    save_dcp({"model": {f"module.{name}": tensor for name, tensor in model.state_dict().items()}, "optimizer": optimizer.state_dict()}, "te")
    torch.save({"model": model.state_dict()}, FILES / "te.pt")

    def names(tensors):
        out = {}
        for name, tensor in tensors.items():
            name = name.replace("pos_embed.", "", 1) if name.startswith("pos_embed.") else name
            if "layernorm_qkv." in name and "layer_norm" not in name:
                rows = [tensor[(head * 3 + part) * (DIM // HEADS):][:DIM // HEADS] for part in range(3) for head in range(HEADS)]
                tensor = torch.cat(rows)
            for there, here in {"self_attention.layernorm_qkv.layer_norm_": "norm1.", "self_attention.layernorm_qkv.": "attn.qkv.",
                                "self_attention.proj.": "attn.proj.", "layernorm_mlp.layer_norm_": "norm2.", "layernorm_mlp.fc1_": "mlp.fc1.",
                                "layernorm_mlp.fc2_": "mlp.fc2."}.items():
                name = name.replace(there, here)
            out[name] = tensor
        return out

    config = {"vit": {**VIT, "img_size": [SIDE], "patch_size": [PATCH], "norm_eps": 1e-5, "act_layer": "gelu_tanh"},
              "optim": {"lr": lr, "betas": list(betas), "eps": EPS, "weight_decay": 0.01, "decay_all": True}}
    write("te", run, config, names)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    FILES.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    from_timm()
    from_other_optimizers()
    from_torch()
    from_huggingface()
    from_bionemo(arguments.upstream)
    from_transformer_engine(arguments.upstream)
    for file in sorted(FILES.rglob("*")):
        if file.is_file():
            print(file.relative_to(OUT), file.stat().st_size)
