#!/usr/bin/env python3
"""Speed of `fovea bench model` against timm in PyTorch, eager and through torch.compile, in one run on one machine.

First all are given the same weights and images and must agree, in their logits and in the gradients of the step that is timed. Then each case is timed in rounds that alternate
between them, each measurement in a process of its own, with the same threads, batch, dtype, loss (cross-entropy)
and optimizer (AdamW with PyTorch's defaults); compilation is not timed. bfloat16 means float32 master weights in both: timm runs under autocast,
as its training script does; `pure` rows hold timm's weights in bfloat16 as well, inference only.

    python3 benchmarks/vs_timm.py [--peers eager compile] [--model vit_base_patch16_224] [--rounds 3] [--write]
"""

import argparse
import os
import pathlib
import subprocess
import tempfile

import provenance
import torch_peer

ROOT = provenance.ROOT
CASES = [("float32", "train"), ("float32", "infer"), ("bfloat16", "train"), ("bfloat16", "infer"),
         ("bfloat16 pure", "infer")]


def timm_worker(args):
    import timm
    import torch

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = timm.create_model(args.model)
    if not model.num_classes:  # as timm has it of some, of which Fovea's preset classifies
        model.reset_classifier(1000)
    images = torch.randn(args.batch_size, *model.default_cfg["input_size"])
    labels = torch.randint(0, model.num_classes, (args.batch_size,))
    torch_peer.time_steps(args, model, images, labels)


def compare_results(args, env):
    """Text: how far logits and gradients are apart, by peer and dtype, on the same weights and images."""
    import timm
    import torch
    from safetensors.torch import load_file, save_file

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = timm.create_model(args.model).eval()
    torch.nn.init.normal_(model.get_classifier().weight, std=0.02)  # timm starts heads at 0 or near it
    images = torch.randn(4, *model.default_cfg["input_size"])
    dtypes = dict.fromkeys(dtype.split()[0] for dtype, mode in CASES if not args.cases or f"{dtype}/{mode}" in args.cases)
    logits = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        save_file({name: value.contiguous() for name, value in model.state_dict().items()},
                  folder / "weights.safetensors")
        save_file({"images": images}, folder / "images.safetensors")
        for dtype in dtypes:
            out = folder / f"{dtype}.safetensors"
            subprocess.run([args.fovea, "predict", args.model, folder / "images.safetensors", "--weights",
                            folder / "weights.safetensors", "--dtype", dtype, "--device", args.device, "--out",
                            out], check=True, env=env, stdout=subprocess.DEVNULL)
            logits[dtype] = load_file(out)["logits"].float()
        return torch_peer.agreement_text(torch_peer.differences(args, model, images, logits),
                                         torch_peer.gradient_differences(args, env, model, args.model, CASES, folder))


def report(args, results, agreement):
    import timm
    import torch

    lines = [
        f"# {args.model}: Fovea against timm, {'CPU' if args.device == 'cpu' else args.device}", "",
        f"{provenance.line()} {args.threads} threads. torch {torch.__version__}, timm {timm.__version__} "
        f"({', '.join(torch_peer.TITLES[peer] for peer in args.peers)}). Batch {args.batch_size}; "
        f"a training step is forward, cross-entropy, backward and AdamW.", "",
        f"Command: `benchmarks/vs_timm.py {torch_peer.options_text(args)}`. {torch_peer.method_text(args)}", "",
        agreement, "",
        *torch_peer.table(args, results), "",
        "bfloat16: float32 master weights in both, timm under autocast; `pure`: timm's weights in bfloat16, Fovea as before."]
    provenance.show(args, provenance.name_for("vs_timm", args.model, "vit_small_patch16_224"), lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--model", default="vit_small_patch16_224", help="any ViT that timm and `fovea list models` have")
    torch_peer.add_arguments(parser, default_batch=32)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    torch_peer.check_arguments(parser, args, CASES)
    if args.worker:
        timm_worker(args)
        return
    env = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    agreement = compare_results(args, env)
    report(args, torch_peer.race(args, env, CASES, lambda dtype, mode: {
        "fovea": torch_peer.fovea_command(args, args.model, dtype, mode),
        **{peer: torch_peer.worker_command(__file__, args, peer, dtype, mode) for peer in args.peers}}), agreement)


if __name__ == "__main__":
    main()
