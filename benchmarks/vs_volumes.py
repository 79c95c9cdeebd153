#!/usr/bin/env python3
"""Speed of the 3-D encoders of UNETR and MAE against the same thing written plainly in PyTorch, eager and compiled.

The peer is a Conv3d patch embedding, a learned position, timm's Blocks, a norm, the mean over the tokens and a linear layer, as
MONAI and UCF-VIT have it; `mae` leaves three quarters of the tokens out after the embedding in training. As vs_timm: both sides get
the same weights and volumes first and must agree, in logits and gradients; then rounds alternate, each measurement in a process of its own with the same
threads, batch, dtype, loss (cross-entropy) and optimizer (AdamW); a step of a recipe, which Fovea takes, also has the norm of the gradient.

    python3 benchmarks/vs_volumes.py [--model unetr|mae] [--peers eager compile] [--rounds 3] [--write]
"""

import argparse
import functools
import os
import pathlib
import subprocess
import tempfile

import bench_model
import provenance
import torch_peer

ROOT = provenance.ROOT
CASES = [("float32", "train"), ("float32", "infer"), ("bfloat16", "train"), ("bfloat16", "infer")]
DROPPED = {"unetr": 0.0, "mae": 0.75}  # share of the tokens that training leaves out
NUM_CLASSES = 10
SIZES = ("side", "patch", "embed_dim", "depth", "num_heads")


def plain_encoder(args):
    import timm.layers
    import torch
    from timm.models.vision_transformer import Block

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.patch_embed = torch.nn.Module()
            self.patch_embed.proj = torch.nn.Conv3d(1, args.embed_dim, args.patch, args.patch)
            self.pos_embed = torch.nn.Parameter(0.02 * torch.randn(1, (args.side // args.patch) ** 3, args.embed_dim))
            rate = DROPPED[args.model]
            self.patch_drop = timm.layers.PatchDropout(rate, num_prefix_tokens=0) if rate else torch.nn.Identity()
            norm = functools.partial(torch.nn.LayerNorm, eps=1e-6)
            self.blocks = torch.nn.Sequential(*[Block(args.embed_dim, args.num_heads, qkv_bias=True, norm_layer=norm)
                                                for _ in range(args.depth)])
            self.fc_norm = norm(args.embed_dim)
            self.head = torch.nn.Linear(args.embed_dim, NUM_CLASSES)

        def forward(self, volumes):  # [B, 1, D, H, W]
            x = self.patch_embed.proj(volumes).flatten(2).transpose(1, 2)  # [B, N, D]
            x = self.blocks(self.patch_drop(x + self.pos_embed))
            return self.head(self.fc_norm(x.mean(1)))

    torch.manual_seed(0)
    return Encoder()


def recipe_text(args, patch_drop_rate=None, **sections):
    """The same encoder as a recipe."""
    rate = DROPPED[args.model] if patch_drop_rate is None else patch_drop_rate
    return bench_model.classifier_recipe(
        {"img_size": [args.side] * 3, "patch_size": [args.patch] * 3, "in_chans": 1, "num_classes": NUM_CLASSES,
         "embed_dim": args.embed_dim, "depth": args.depth, "num_heads": args.num_heads, "class_token": False, "global_pool": "avg",
         "patch_drop_rate": rate}, **sections)


def random_volumes(args, count):
    import torch

    return torch.randn(count, 1, args.side, args.side, args.side)


def peer_worker(args):
    import torch

    torch.set_num_threads(args.threads)
    model = plain_encoder(args)
    volumes = random_volumes(args, args.batch_size)
    torch_peer.time_steps(args, model, volumes, torch.randint(0, NUM_CLASSES, (args.batch_size,)))


def compare_results(args, env, folder):
    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(args.threads)
    model = plain_encoder(args).eval()
    volumes = random_volumes(args, 2)
    save_file(model.state_dict(), folder / "weights.safetensors")
    save_file({"images": volumes}, folder / "volumes.safetensors")
    recipe = folder / "with_weights.yaml"
    recipe.write_text(recipe_text(args, init={"weights": str(folder / "weights.safetensors")}))
    logits = {}
    for dtype in dict.fromkeys(dtype for dtype, mode in CASES if not args.cases or f"{dtype}/{mode}" in args.cases):
        out = folder / f"{dtype}.safetensors"
        subprocess.run([args.fovea, "predict", recipe, folder / "volumes.safetensors", "--dtype", dtype, "--device", args.device,
                        "--out", out], check=True, env=env, stdout=subprocess.DEVNULL)
        logits[dtype] = load_file(out)["logits"].float()
    # Which tokens are left out is drawn on each side by itself: gradients are those of all of them.
    model.patch_drop = torch.nn.Identity()
    all_tokens = folder / "all_tokens.yaml"
    all_tokens.write_text(recipe_text(args, patch_drop_rate=0.0))
    return torch_peer.agreement_text(torch_peer.differences(args, model, volumes, logits),
                                     torch_peer.gradient_differences(args, env, model, all_tokens, CASES, folder))


def report(args, results, agreement):
    import timm
    import torch

    sizes = " ".join(f"--{name.replace('_', '-')} {getattr(args, name)}" for name in SIZES)
    tokens = (args.side // args.patch) ** 3
    kept = int(tokens * (1 - DROPPED[args.model]))
    seen = f", of which training sees {kept}" if kept < tokens else ""
    lines = [
        f"# {args.model}: a 3-D encoder of Fovea against plain PyTorch, {'CPU' if args.device == 'cpu' else args.device}", "",
        f"{provenance.line()} {args.threads} threads. torch {torch.__version__} ({', '.join(torch_peer.TITLES[peer] for peer in args.peers)}), "
        f"Blocks of timm {timm.__version__}. Volumes of {args.side}^3, patches of {args.patch}^3: {tokens} tokens{seen}; width "
        f"{args.embed_dim}, depth {args.depth}, {args.num_heads} heads. Batch {args.batch_size}; a training step is forward, "
        "cross-entropy, backward and AdamW.", "",
        f"Command: `benchmarks/vs_volumes.py {torch_peer.options_text(args)} {sizes}`. {torch_peer.method_text(args)}", "",
        agreement, "",
        *torch_peer.table(args, results)]
    provenance.show(args, f"vs_volumes_{args.model}", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--model", choices=list(DROPPED), default="unetr")
    for name, value in zip(SIZES, (96, 16, 768, 12, 12)):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=value)
    torch_peer.add_arguments(parser, default_batch=4)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    torch_peer.check_arguments(parser, args, CASES)
    if args.worker:
        peer_worker(args)
        return
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    sizes = [text for name in SIZES for text in (f"--{name.replace('_', '-')}", getattr(args, name))]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        recipe = folder / f"{args.model}.yaml"
        recipe.write_text(recipe_text(args))
        agreement = compare_results(args, env, folder)
        report(args, torch_peer.race(args, env, CASES, lambda dtype, mode: {
            "fovea": torch_peer.fovea_command(args, recipe, dtype, mode),
            **{peer: torch_peer.worker_command(__file__, args, peer, dtype, mode) + sizes for peer in args.peers}}), agreement)


if __name__ == "__main__":
    main()
