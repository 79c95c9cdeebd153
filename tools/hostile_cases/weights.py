"""Weights of this and other systems, and recipes and configurations to import."""
import json
import shutil
import struct
import zipfile

from . import layers
from .arrays import numbers
from .originals import GOLDEN, ROOT, SAMPLES, Original, put

TORCH = {"is_checked": True, "layers": (layers.whole, layers.whole, layers.zip_member, layers.zip_names)}
SAFETENSORS = {"layers": (layers.whole, layers.safetensors, layers.safetensors)}
TAKE_OVER = """\
run: {dir: new_run}
device: {type: cpu, threads: 1}
model: {name: vit, img_size: 8, patch_size: 4, in_chans: 1, embed_dim: 8, depth: 2, num_heads: 2, mlp_ratio: 2, num_classes: 5,
        reg_tokens: 2}
data: {train: {format: idx, images: images, labels: labels, num_classes: 5, transforms: [normalize]}, global_batch_size: 10}
optim: {name: adamw, lr: 0.01, betas: [0.9, 0.95], eps: 1e-4}
schedule: {name: cosine, total_steps: 30, warmup_steps: 4, warmup_lr: 1e-3, min_lr: 1e-4}
trainer: {max_steps: 9}
init: {weights: last.pth.tar, optimizer: last.pth.tar}
log: {every_steps: 1, tensorboard: false}
"""
CLUSTER = """\
name: our cluster
ranks_per_node: 4
float32_tflops: 16
bfloat16_tflops: 187
memory_bandwidth: 1600
intra_node_bandwidth: 240
inter_node_bandwidth: 20
intra_node_latency: 5
inter_node_latency: 15
memory: 74
"""
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = ["google_augreg.npz", "hf_dinov2.safetensors", "hf_vit.safetensors", "dinov2_training.pth", "timm.pth.tar", "hf_mae.bin"]


def safetensors(tensors):
    """name -> (dtype, shape, bytes)"""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def foreign(folder, program):
    del program
    for name in FILES:
        shutil.copy(GOLDEN / "weights" / name, folder / name)
    for name in ("dcp", "dcp_sharded"):
        shutil.copytree(GOLDEN / "weights" / name, folder / name)
    zipfile.ZipFile(GOLDEN / "moving/t5x.zip").extractall(folder / "t5x")


def take_over(folder, program):
    """A run that goes on where timm stopped."""
    del program
    put(folder / "images", struct.pack(">BBBBIII", 0, 0, 8, 3, 40, 8, 8) + numbers(40 * 64))
    put(folder / "labels", struct.pack(">BBBBI", 0, 0, 8, 1, 40) + bytes(i % 5 for i in range(40)))
    shutil.copy(GOLDEN / "moving/timm.pth.tar", folder / "last.pth.tar")
    put(folder / "recipe.yaml", TAKE_OVER)


def on_hub(folder, program):
    """What is kept of a repository, in the cache that HF_HUB_CACHE names."""
    del program
    repository = folder / "hub/models--org--vit"
    put(repository / "refs/main", COMMIT)
    put(repository / f"snapshots/{COMMIT}/config.json", json.dumps({
        "model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 16, "intermediate_size": 32,
        "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 8, "num_channels": 3, "hidden_act": "gelu",
        "layer_norm_eps": 1e-12, "qkv_bias": True, "id2label": {str(i): f"class {i}" for i in range(5)}}))
    put(repository / f"snapshots/{COMMIT}/preprocessor_config.json", json.dumps({
        "do_resize": True, "size": {"height": 16, "width": 16}, "resample": 2, "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}))


def imports(folder, program):
    del program
    for path in SAMPLES.iterdir():
        if path.is_file():
            shutil.copy(path, folder / path.name)
    shutil.copy(ROOT / "recipes/fashion_mnist/vit.yaml", folder / "recipe.yaml")
    put(folder / "cluster.yaml", CLUSTER)


def convert(name, path=None, **options):
    source = path.split("/")[0] if path else name
    return Original(f"weights {path or name}", "foreign", path or name,
                    [f"convert {source} out.safetensors", f"convert {source} out.pth --json"], **options)


def imported(system, name):
    command = f"config import {name} --from {system} --out out.yaml"
    return Original(f"import {name}", "imports", name, [command, f"{command} --json"], is_text=True)


GROUPS = {"foreign": foreign, "on_hub": on_hub, "take_over": take_over, "imports": imports}
ORIGINALS = [
    convert("google_augreg.npz", **TORCH),
    convert("hf_dinov2.safetensors", **SAFETENSORS),
    convert("hf_vit.safetensors", **SAFETENSORS),
    convert("dinov2_training.pth"),
    convert("timm.pth.tar", **TORCH),
    convert("hf_mae.bin", **TORCH),
    convert("dcp", "dcp/.metadata", also_named=["dcp"]),
    convert("dcp_sharded", "dcp_sharded/.metadata", also_named=["dcp_sharded"]),
    convert("dcp_sharded", "dcp_sharded/__1_0.distcp"),
    convert("t5x", "t5x/checkpoint_7/checkpoint", also_named=["t5x"]),
    convert("t5x", "t5x/checkpoint_7/target.vision_model.head.kernel/.zarray", is_text=True,
            also_named=["t5x/checkpoint_7/target.vision_model.head.kernel"]),
    convert("t5x", "t5x/checkpoint_7/target.vision_model.head.kernel/0.0"),
    *[Original(f"hub {name}", "on_hub", f"hub/models--org--vit/snapshots/{COMMIT}/{name}",
               ["summary hf-hub:org/vit", "summary hf-hub:org/vit --json"], is_text=True)
      for name in ("config.json", "preprocessor_config.json")],
    Original("weights of a run to take over", "take_over", "last.pth.tar", ["train recipe.yaml"], **TORCH),
    imported("bionemo", "bionemo.yaml"), imported("jabas", "jabas.json"), imported("jabas", "jabas.sh"),
    imported("rosetta", "rosetta_pretrain.gin"), imported("rosetta", "rosetta_finetune.gin"), imported("timm", "timm.yaml"),
    imported("timm", "timm.sh"), imported("ucf", "ucf.yaml"), imported("ucf", "ucf_ct.yaml"),
    Original("machine of plan", "imports", "cluster.yaml", ["plan recipe.yaml --gpus 4 --machine cluster.yaml"], is_text=True),
]
