#!/usr/bin/env python3
"""fovea.data in the training loops of timm, Lightning and MONAI, each with the one line changed that makes the loader; and what only
torch and JAX show of it. On a folder of JPEGs and one of volumes that are made up here.

usage: tools/python_loops.py [--package build/release/python] [timm|lightning|monai|tensors|jax ...]

A loop is skipped, with a word, where this Python has not its package. Prints its time.
"""
import argparse
import importlib.util
import pathlib
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIDE, CLASSES, EPOCHS = 32, 3, 3


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"python_loops: {' '.join(map(str, what))}")


def make_photos(folder):
    """Classes that differ in their colour."""
    import numpy
    from PIL import Image
    draws = numpy.random.default_rng(1)
    for label in range(CLASSES):
        (folder / f"class{label}").mkdir(parents=True)
        for i in range(40):
            pixels = draws.integers(0, 120, (48, 40, 3), dtype=numpy.uint8)
            pixels[..., label] += 100
            Image.fromarray(pixels).save(folder / f"class{label}/{i:02}.jpg")
    return folder


def make_scans(folder):
    """Volumes whose bright half is the mask."""
    import numpy
    draws = numpy.random.default_rng(2)
    folder.mkdir()
    for i in range(6):
        mask = numpy.zeros((16, 16, 16), numpy.uint8)
        mask[:, :, :8 + i % 2] = 1
        numpy.save(folder / f"scan{i}.npy", (mask + draws.normal(0, 0.1, mask.shape)).astype(numpy.float32))
        numpy.save(folder / f"mask{i}.npy", mask)
    return folder


def loop_timm(fovea_data, folder):
    """timm's steps as its train.py has them."""
    import timm
    import torch
    from timm.optim import create_optimizer_v2
    from timm.scheduler import create_scheduler_v2
    from timm.utils import AverageMeter, accuracy
    model = timm.create_model("vit_tiny_patch16_224", img_size=SIDE, patch_size=8, num_classes=CLASSES, depth=2)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3)
    scheduler, _ = create_scheduler_v2(optimizer, sched="cosine", num_epochs=EPOCHS)
    loss_fn = torch.nn.CrossEntropyLoss()
    # was: loader = create_loader(create_dataset("", root=folder), (3, 32, 32), 8, is_training=True, use_prefetcher=False, ...)
    loader = fovea_data.ImageFolder(folder, batch_size=8, threads=2, output="torch", transforms=[
        {"name": "random_resized_crop", "size": SIDE}, "horizontal_flip", {"name": "normalize", "preset": "imagenet"}])
    top1 = AverageMeter()
    for epoch in range(EPOCHS):
        top1.reset()
        model.train()
        for batch_idx, (input, target) in enumerate(loader):
            output = model(input)
            loss = loss_fn(output, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            top1.update(accuracy(output, target)[0].item(), input.size(0))
            scheduler.step_update(num_updates=epoch * len(loader) + batch_idx)
        scheduler.step(epoch + 1)
    check(top1.avg > 80, "timm's loop learns", top1.avg, "% of three colours")
    return f"{top1.avg:.0f} % of the training images after {EPOCHS} epochs"


def loop_lightning(fovea_data, folder):
    import lightning
    import torch

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(3, CLASSES)
            self.losses = []

        def training_step(self, batch, batch_idx):
            images, labels = batch
            loss = torch.nn.functional.cross_entropy(self.head(images.mean((2, 3))), labels)
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=0.1)

    # was: loader = DataLoader(ImageFolder(folder, transform), batch_size=8, shuffle=True, num_workers=2)
    loader = fovea_data.ImageFolder(folder, batch_size=8, threads=2, output="torch", yields="pair", transforms=[
        {"name": "resize", "size": [SIDE, SIDE]}, "normalize"])
    model = Classifier()
    trainer = lightning.Trainer(max_epochs=EPOCHS, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, accelerator="cpu")
    trainer.fit(model, loader)
    check(len(model.losses) == EPOCHS * len(loader) and model.losses[-1] < model.losses[0] / 2, model.losses)
    return f"loss {model.losses[0]:.2f} to {model.losses[-1]:.2f} in {len(model.losses)} steps"


def loop_monai(fovea_data, folder):
    """That of MONAI's tutorials: batches are dicts of "image" and "label"."""
    import torch
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet
    model = UNet(spatial_dims=3, in_channels=1, out_channels=1, channels=(4, 8), strides=(2,))
    loss_function, optimizer = DiceLoss(sigmoid=True), torch.optim.Adam(model.parameters(), 0.02)
    # was: train_loader = DataLoader(CacheDataset(train_files, train_transforms), batch_size=2, shuffle=True, num_workers=2)
    train_loader = fovea_data.Volumes(folder, format="npy", images="scan*.npy", masks="mask*.npy", num_classes=2, batch_size=2,
                                      threads=2, output="torch", yields={"image": "images", "label": "masks"})
    losses = []
    for _ in range(4 * EPOCHS):
        for batch_data in train_loader:
            inputs, labels = batch_data["image"], batch_data["label"].unsqueeze(1)
            optimizer.zero_grad()
            loss = loss_function(model(inputs), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    check(losses[-1] < losses[0] - 0.1, losses)
    return f"Dice loss {losses[0]:.2f} to {losses[-1]:.2f} in {len(losses)} steps"


def loop_tensors(fovea_data, folder):
    """Tensors lie where the loader has filled them, keep their memory, and are pinned where that helps."""
    import torch
    transforms = [{"name": "resize", "size": [SIDE, SIDE]}, "normalize"]
    loader = fovea_data.ImageFolder(folder, batch_size=8, output="torch", transforms=transforms)
    kept = [images for images, _ in loader]
    sums = [images.sum().item() for images in kept]
    for _ in range(3):
        for batch in loader:
            check(batch.images.data_ptr() == batch._memory.address("images"), "tensors were copied")
            batch.images.zero_()  # they may be written to
    loader.close()
    check(sums == [images.sum().item() for images in kept], "tensors that were kept have changed")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = fovea_data.ImageFolder(folder, batch_size=8, output="torch", pin_memory=True, transforms=transforms)
    images, labels = next(iter(loader))
    check(images.is_pinned() == labels.is_pinned() == torch.cuda.is_available(), "pinned where there is a GPU")
    check(len(caught) == (0 if torch.cuda.is_available() else 1), caught)
    capsule = next(iter(fovea_data.ImageFolder(folder, batch_size=8, output="dlpack", transforms=transforms))).images
    check(torch.from_dlpack(capsule).shape == (8, 3, SIDE, SIDE), "torch takes what output='dlpack' gives")
    return f"{len(kept)} batches kept through three epochs"


def loop_jax(fovea_data, folder):
    import jax
    loader = fovea_data.ImageFolder(folder, batch_size=8, output="jax", section="val", transforms=[
        {"name": "resize", "size": [SIDE, SIDE]}, "normalize"])
    images, labels = next(iter(loader))
    check(isinstance(images, jax.Array) and images.shape == (8, 3, SIDE, SIDE) and labels.sum() == 0, images.shape)
    return f"{images.dtype} on {images.device}"


LOOPS = {"timm": (loop_timm, "timm", "photos"), "lightning": (loop_lightning, "lightning", "photos"),
         "monai": (loop_monai, "monai", "scans"), "tensors": (loop_tensors, "torch", "photos"), "jax": (loop_jax, "jax", "photos")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("loops", nargs="*", metavar="LOOP", help=", ".join(LOOPS))
    parser.add_argument("--package", default=str(ROOT / "build/release/python"), help="folder that fovea.data is imported from; "
                        "empty: the installed wheel")
    args = parser.parse_args()
    if args.package:
        sys.path.insert(0, args.package)
    import fovea.data
    with tempfile.TemporaryDirectory() as name:
        folders = {"photos": make_photos(pathlib.Path(name) / "photos"), "scans": make_scans(pathlib.Path(name) / "scans")}
        for loop in args.loops or LOOPS:
            run, package, data = LOOPS[loop]
            if importlib.util.find_spec(package) is None:
                print(f"{loop}: skipped, this Python has no {package}")
                continue
            start = time.perf_counter()
            print(f"{loop}: {run(fovea.data, folders[data])}; {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
