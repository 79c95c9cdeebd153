"""Goldens for fovea/weights: files as other systems write them, and what those systems make of them.

tests/golden/weights/ holds the files; weights_expected.safetensors beside it the images, and for each file the features
or logits of the system's own model and, where timm has a reader for it, each tensor by timm's names. Every parameter is
random, so that a swapped query and key or a transposed square weight shows. The models are the systems' own code:
transformers 5.23.0 and timm 1.0.31 from PyPI; from --upstream DIR/{dinov2,mae,ucf} facebookresearch/dinov2 b8931f7,
facebookresearch/mae efb2a80 (np.float and qk_scale, gone from NumPy and timm, are replaced) and irlyngaas/UCF-VIT
c114eeb (monai and xformers are stubs).

    pip install transformers==5.23.0 tokenizers==0.23.3 regex==2026.11.15 einops==0.8.2
    python tools/golden/make_weights.py --upstream DIR
"""
import argparse
import functools
import pathlib
import shutil
import sys
import types

import numpy as np
import torch
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
FILES = OUT / "weights"
DIM, DEPTH, HEADS, PATCH, SIDE, CLASSES = 16, 2, 2, 8, 16, 5
expected = {}


def randomise(model, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model.eval()


def images():
    return expected["images"]


def keep(case, **tensors):
    for name, tensor in tensors.items():
        expected[f"{case}/{name}"] = tensor.detach().float().contiguous().clone()


def keep_state(case, state):
    for name, tensor in state.items():
        expected[f"{case}/weights/{name}"] = tensor.detach().float().contiguous().clone()


def save_safetensors(model, name):
    folder = FILES / "tmp"
    model.save_pretrained(folder)
    shutil.move(folder / "model.safetensors", FILES / name)
    shutil.rmtree(folder)


def huggingface():
    import transformers as hf
    sizes = dict(hidden_size=DIM, num_hidden_layers=DEPTH, num_attention_heads=HEADS, image_size=SIDE, patch_size=PATCH)
    vit = randomise(hf.ViTForImageClassification(hf.ViTConfig(intermediate_size=32, num_labels=CLASSES, **sizes)), 1)
    save_safetensors(vit, "hf_vit.safetensors")
    keep("hf_vit", logits=vit(images()).logits, features=vit.vit(images()).last_hidden_state)

    # A state_dict of version 5 has other names than its files.
    pooled = randomise(hf.ViTModel(hf.ViTConfig(intermediate_size=32, **sizes)), 2)
    torch.save(pooled.state_dict(), FILES / "hf_vit_model.bin")
    keep("hf_vit_model", logits=pooled(images()).pooler_output)

    gated = randomise(hf.Dinov2Model(hf.Dinov2Config(use_swiglu_ffn=True, **sizes)), 3)
    save_safetensors(gated, "hf_dinov2.safetensors")
    keep("hf_dinov2", features=gated(images()).last_hidden_state)

    config = hf.Dinov2WithRegistersConfig(num_register_tokens=3, mlp_ratio=2, **sizes)
    registers = randomise(hf.Dinov2WithRegistersModel(config), 4)
    save_safetensors(registers, "hf_dinov2_registers.safetensors")
    keep("hf_dinov2_registers", features=registers(images()).last_hidden_state)

    config = hf.ViTMAEConfig(
        intermediate_size=32, decoder_hidden_size=8, decoder_num_hidden_layers=1, decoder_num_attention_heads=2,
        decoder_intermediate_size=24, mask_ratio=0.0, **sizes)
    mae = randomise(hf.ViTMAEForPreTraining(config), 5)
    torch.save(mae.state_dict(), FILES / "hf_mae.bin")
    in_order = torch.arange(4.0).repeat(len(images()), 1)
    keep("hf_mae", features=mae.vit(images(), noise=in_order).last_hidden_state)
    mae.vit.embeddings.config.mask_ratio = 0.5
    noise = torch.tensor([[3.0, 0.0, 2.0, 1.0], [0.0, 3.0, 1.0, 2.0]])
    keep("hf_mae", predictions=mae(images(), noise=noise).logits, ids_keep=torch.tensor([[1, 3], [0, 2]]))


def dinov2(upstream):
    sys.path.insert(0, str(upstream / "dinov2"))
    from dinov2.layers import MemEffAttention, NestedTensorBlock
    from dinov2.models.vision_transformer import DinoVisionTransformer
    from timm.models.vision_transformer import checkpoint_filter_fn
    block = functools.partial(NestedTensorBlock, attn_class=MemEffAttention)
    make = functools.partial(
        DinoVisionTransformer, img_size=SIDE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, init_values=1.0,
        block_fn=block, interpolate_offset=0.0)

    def features(model):
        out = model.forward_features(images())
        return torch.cat([out["x_norm_clstoken"][:, None], out["x_norm_regtokens"], out["x_norm_patchtokens"]], 1)

    hub = randomise(make(mlp_ratio=4, ffn_layer="swiglufused", num_register_tokens=2, block_chunks=0), 6)
    torch.save(hub.state_dict(), FILES / "dinov2_registers.pth")
    keep("dinov2_registers", features=features(hub))
    import timm
    like = timm.models.VisionTransformer(
        img_size=SIDE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=6, init_values=1.0, reg_tokens=2,
        no_embed_class=True, num_classes=0, mlp_layer=timm.layers.SwiGLUPacked)
    state = checkpoint_filter_fn(dict(hub.state_dict()), like)
    like.load_state_dict(state)  # strict
    keep_state("dinov2_registers", state)

    student = randomise(make(mlp_ratio=2, block_chunks=2), 7)
    teacher = {f"backbone.{name}": tensor for name, tensor in student.state_dict().items()}
    teacher["dino_head.last_layer.weight"] = torch.randn(4, 8)
    torch.save({"teacher": teacher, "iteration": 3}, FILES / "dinov2_training.pth", _use_new_zipfile_serialization=False)
    keep("dinov2_training", features=features(student))


def google():
    import timm
    rng = np.random.default_rng(8)
    head = DIM // HEADS

    def array(*shape):
        return (rng.standard_normal(shape) * 0.4).astype(np.float32)

    def attention(name):
        return {f"{name}/{part}/kernel": array(DIM, HEADS, head) for part in ("query", "key", "value")} | {
            f"{name}/{part}/bias": array(HEADS, head) for part in ("query", "key", "value")} | {
            f"{name}/out/kernel": array(HEADS, head, DIM), f"{name}/out/bias": array(DIM)}

    def norm(name):
        return {f"{name}/scale": array(DIM), f"{name}/bias": array(DIM)}

    def mlp(name):
        return {f"{name}/Dense_0/kernel": array(DIM, 32), f"{name}/Dense_0/bias": array(32),
                f"{name}/Dense_1/kernel": array(32, DIM), f"{name}/Dense_1/bias": array(DIM)}

    def stem():
        return {"embedding/kernel": array(PATCH, PATCH, 3, DIM), "embedding/bias": array(DIM)}

    augreg = stem() | {"cls": array(1, 1, DIM), "Transformer/posembed_input/pos_embedding": array(1, 5, DIM)}
    augreg |= norm("Transformer/encoder_norm") | {"head/kernel": array(DIM, CLASSES), "head/bias": array(CLASSES)}
    for i in range(DEPTH):
        block = f"Transformer/encoderblock_{i}"
        augreg |= norm(f"{block}/LayerNorm_0") | attention(f"{block}/MultiHeadDotProductAttention_1")
        augreg |= norm(f"{block}/LayerNorm_2") | mlp(f"{block}/MlpBlock_3")
    np.savez(FILES / "google_augreg.npz", **{f"opt/target/{name}": value for name, value in augreg.items()},
             **{"opt/state/step": np.int64(3)})
    model = timm.models.VisionTransformer(
        img_size=SIDE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=2, num_classes=CLASSES).eval()
    model.load_pretrained(str(FILES / "google_augreg.npz"))
    keep_state("google_augreg", model.state_dict())
    keep("google_augreg", logits=model(images()))

    # bfloat16, which NumPy has no name for: every value is one already.
    def rounded(value):
        return (value.view(np.uint32) & 0xFFFF0000).view(np.float32)

    blocks = []
    for _ in range(DEPTH):
        blocks.append(norm("LayerNorm_0") | attention("MultiHeadDotProductAttention_0") | norm("LayerNorm_1") | mlp("MlpBlock_0"))
    siglip = stem() | {"pos_embedding": array(1, 4, DIM)} | norm("Transformer/encoder_norm")
    siglip |= {"MAPHead_0/probe": array(1, 1, DIM)} | attention("MAPHead_0/MultiHeadDotProductAttention_0")
    siglip |= norm("MAPHead_0/LayerNorm_0") | mlp("MAPHead_0/MlpBlock_0")
    siglip |= {f"Transformer/encoderblock/{name}": np.stack([block[name] for block in blocks]) for name in blocks[0]}
    siglip = {f"params/img/{name}": rounded(value) for name, value in siglip.items()}
    siglip |= {"params/txt/head/bias": rounded(array(4)), "params/t": rounded(array(1))}
    np.savez(FILES / "tmp.npz", **siglip)
    model = timm.models.VisionTransformer(
        img_size=SIDE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=2, num_classes=0, global_pool="map",
        class_token=False).eval()
    model.load_pretrained(str(FILES / "tmp.npz"))
    (FILES / "tmp.npz").unlink()
    keep_state("google_siglip", model.state_dict())
    keep("google_siglip", logits=model(images()))
    np.savez_compressed(
        FILES / "google_siglip.npz",
        **{name: (np.ascontiguousarray(value).view(np.uint32) >> 16).astype("<u2").view("V2") for name, value in siglip.items()})


def mae(upstream):
    np.float = float
    sys.path.insert(0, str(upstream / "mae"))
    from timm.models import vision_transformer
    real = vision_transformer.Block
    vision_transformer.Block = lambda *args, qk_scale=None, **kwargs: real(*args, **kwargs)
    import models_mae
    model = randomise(models_mae.MaskedAutoencoderViT(
        img_size=SIDE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, decoder_embed_dim=8, decoder_depth=1,
        decoder_num_heads=2, mlp_ratio=2, norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-6)), 9)
    vision_transformer.Block = real
    optimizer = torch.optim.AdamW(model.parameters())
    model.forward_decoder(*model.forward_encoder(images(), 0.5)[::2]).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7,
                "args": argparse.Namespace(lr=0.1, output_dir="out")}, FILES / "mae.pth")
    latent, _, restore = model.forward_encoder(images(), 0.0)
    in_order = torch.gather(latent[:, 1:], 1, restore[..., None].expand(-1, -1, DIM))
    keep("mae", features=torch.cat([latent[:, :1], in_order], 1))
    latent, mask, restore = model.forward_encoder(images(), 0.5)
    seen = torch.stack([(row == 0).nonzero().flatten() for row in mask])
    keep("mae", predictions=model.forward_decoder(latent, restore), ids_keep=seen)


def ucf(upstream):
    for name in ("monai", "monai.networks", "monai.networks.blocks", "monai.networks.blocks.dynunet_block", "xformers",
                 "xformers.ops"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["monai.networks.blocks.dynunet_block"].get_conv_layer = None
    for name in ("UnetrBasicBlock", "UnetrPrUpBlock", "UnetrUpBlock", "UnetOutBlock"):
        for module in ("monai.networks.blocks", "monai.networks.blocks.dynunet_block"):
            setattr(sys.modules[module], name, None)
    sys.path.insert(0, str(upstream / "ucf" / "src"))
    from UCF_VIT.simple.arch import VIT
    from UCF_VIT.utils.fused_attn import FusedAttn
    model = randomise(VIT(
        img_size=[SIDE, SIDE], patch_size=PATCH, in_chans=3, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=2,
        num_classes=CLASSES, twoD=True, use_varemb=False, default_vars=["r", "g", "b"], adaptive_patching=False,
        FusedAttn_option=FusedAttn.DEFAULT), 10)
    torch.save({"epoch": 1, "model_state_dict": model.state_dict(), "loss_list": [0.5]}, FILES / "ucf_vit.ckpt")
    keep("ucf_vit", logits=model(images(), ["r", "g", "b"]))


def timm_checkpoint():
    import timm
    model = randomise(timm.models.VisionTransformer(
        img_size=SIDE, patch_size=PATCH, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=2, num_classes=CLASSES), 11)
    keep("timm", logits=model(images()))
    keep_state("timm", model.state_dict())
    ema = {name: tensor * 0.5 for name, tensor in model.state_dict().items()}
    torch.save({"epoch": 3, "arch": "vit", "state_dict": {f"module.{k}": v for k, v in model.state_dict().items()},
                "state_dict_ema": ema, "args": argparse.Namespace(opt="adamw"), "version": 2, "metric": np.float64(71.5)},
               FILES / "timm.pth.tar")


def torch_kinds():
    """Every dtype, a Parameter, a buffer of no elements, a scalar, and two views of one storage."""
    torch.manual_seed(12)
    base = torch.randn(6, 4)
    kinds = {str(dtype).removeprefix("torch."): (torch.randn(2, 3) * 9).to(dtype)
             for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
                           torch.int8, torch.uint8, torch.bool)}
    kinds |= {"parameter": torch.nn.Parameter(base[0].clone()), "empty": torch.zeros(0, 3), "scalar": torch.tensor(2.5),
              "transposed": base.t(), "rows": base[2:4]}
    nested = {"model": kinds, "step": 3}
    torch.save(nested, FILES / "torch_kinds.pt")
    torch.save(nested, FILES / "torch_kinds_legacy.pt", _use_new_zipfile_serialization=False)
    for name, tensor in kinds.items():
        expected[f"torch_kinds/{name}"] = tensor.detach().contiguous().clone()


def save_sharded(rank, folder, port):
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    model = {f"module.{name}": distribute_tensor(tensor, mesh, [Shard(0)]) for name, tensor in sharded_state().items()}
    dcp.save({"model": model, "optimizer": {"lr": 0.1, "exp_avg": torch.ones(3)}}, checkpoint_id=folder)
    dist.destroy_process_group()


def sharded_state():
    generator = torch.Generator().manual_seed(13)
    return {"blocks.0.attn.qkv.weight": torch.randn(9, 3, generator=generator), "norm.weight": torch.randn(5, generator=generator),
            "cls_token": torch.randn(1, 1, 3, generator=generator)}


def distributed_checkpoints():
    from torch.distributed.checkpoint.format_utils import torch_save_to_dcp
    for name in ("dcp", "dcp_sharded"):
        shutil.rmtree(FILES / name, ignore_errors=True)
    torch_save_to_dcp(FILES / "hf_vit_model.bin", FILES / "dcp")
    torch.multiprocessing.spawn(save_sharded, (str(FILES / "dcp_sharded"), 29751), nprocs=2)
    keep_state("dcp_sharded", sharded_state())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", type=pathlib.Path, required=True)
    upstream = parser.parse_args().upstream
    FILES.mkdir(exist_ok=True)
    expected["images"] = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    huggingface()
    dinov2(upstream)
    google()
    mae(upstream)
    ucf(upstream)
    timm_checkpoint()
    torch_kinds()
    distributed_checkpoints()
    save_file(expected, OUT / "weights_expected.safetensors")
    print(f"{len(list(FILES.iterdir()))} files, {len(expected)} tensors expected")
