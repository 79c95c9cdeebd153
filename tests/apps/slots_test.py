#!/usr/bin/env python3
"""With parallel.slots a run has the same bits on any number of processes: losses of the steps and final weights.

usage: slots_test.py FOVEA. The recipe is recipes/fashion_mnist/quickstart.yaml, for a few steps; without its data set, images that
are made up alone.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import tiny_run  # noqa: E402

QUICKSTART = ROOT / "recipes/fashion_mnist/quickstart.yaml"
DATA_SET = pathlib.Path("/usr/share/datasets/fashion-mnist")
SLOTS = ("parallel.slots=8", "device.threads=1")


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"slots_test: {' '.join(map(str, what))}")


def train(fovea, recipe, run, *overrides):
    """-> losses of the train lines, in all digits, and the final weights."""
    words = [fovea, "train", recipe, f"run.dir={run}", "log.every_steps=1", "log.tensorboard=false", *overrides]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    check(done.returncode == 0, *words, "ended with", done.returncode, done.stdout, done.stderr)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [(line["step"], repr(line["loss"])) for line in lines if "lr" in line and "loss" in line]
    return losses, tiny_run.tensors(run / "weights.safetensors")


def check_same(fovea, folder, name, recipe, steps, *overrides):
    """Of 1, 2 and 3 processes."""
    runs = {processes: train(fovea, recipe, folder / f"{name}{processes}", f"launch.processes={processes}", *SLOTS, *overrides)
            for processes in (1, 2, 3)}
    losses, weights = runs[1]
    check(len(losses) == steps, name, "has the losses of", losses)
    check(len(weights) > 10, name, "has few weights")
    for processes in (2, 3):
        check(runs[processes][0] == losses, name, processes, "processes: losses", runs[processes][0], "and", losses)
        check(runs[processes][1] == weights, name, processes, "processes: other weights")
    return weights


def main():
    fovea = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part, count in (("train", tiny_run.TRAIN_SAMPLES - 3), ("test", 20)):
            tiny_run.write_images(folder, part, count, seed=1)
        recipe = folder / "tiny.yaml"
        recipe.write_text(tiny_run.RECIPE.format(folder=folder, side=tiny_run.SIDE, batch=20, epochs=2, micro=2,
                                                 every=tiny_run.CHECKPOINT_EVERY, ranks=1))
        weights = check_same(fovea, folder, "tiny", recipe, 10, "data.drop_last=false")
        without = train(fovea, recipe, folder / "plain", "launch.processes=2", "device.threads=1", "data.drop_last=false")
        check(without[1] != weights, "the same bits without slots: nothing was compared")
        if not DATA_SET.exists():
            return
        tiny_run.SIDE = 28  # an evaluation of a few images takes no time
        tiny_run.write_images(folder, "val", 20, seed=2)
        val = f"data.val={{format: idx, images: {folder}/val-images, labels: {folder}/val-labels, num_classes: 10, transforms: [normalize]}}"
        check_same(fovea, folder, "quickstart", QUICKSTART, 2, "trainer.max_steps=2", "schedule.warmup_steps=1", val)


main()
