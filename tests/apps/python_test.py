#!/usr/bin/env python3
"""The Python package fovea: models that are timm's to the tolerances of tests/support/tolerance.h, the same to the bit where torch
captures them, runs that are those of the program to the bit, and what is refused, by name.

usage: python_test.py PYTHON_FOLDER FOVEA: the folder of the built package, and the program. What needs torch is skipped where this
Python lacks the one that Fovea was built with, or NumPy; what needs timm, without it.
"""
import copy
import importlib.util
import io
import itertools
import json
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [sys.argv[1], str(ROOT / "tools")]
import tiny_run  # noqa: E402
from python_checks import SMALL, check, expect, is_close  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may ignore it, as a shell does of what is in the background


def missing_packages():
    """What the tests of models, runs and predictions lack in this Python; empty: nothing."""
    from fovea._built import TORCH_VERSION
    from fovea._library_check import torch_fault
    numpy = [] if importlib.util.find_spec("numpy") else ["NumPy"]
    return numpy + ([f"torch {TORCH_VERSION}"] if torch_fault() else [])


def check_arguments():
    from fovea._arguments import overrides_of
    found = overrides_of({"optim": {"lr": 3e-4, "beta": float("inf")}, "model": {"name": "vit", "depth": 2}, "trainer.max_epochs": 1,
                          "run": {"dir": pathlib.Path("/a b")}, "task": {"loss": "on"},
                          "data": {"threads": None, "class_names": ["cat", "4"]}})
    check(found == ["optim.lr=0.0003", "optim.beta=.inf", 'model={"name": vit, "depth": 2}', "trainer.max_epochs=1",
                    'run.dir="/a b"', 'task.loss="on"', "data.threads=null", 'data.class_names=[cat, "4"]'], found)
    expect(TypeError, ["optim.lr: found a set"], lambda: overrides_of({"optim": {"lr": {1}}}))


def check_errors_without_torch():
    """Those of fovea and of fovea.data are the same classes."""
    import fovea
    import fovea.data
    for name in ("Error", "ConfigError", "DataError", "MissingFileError"):
        check(getattr(fovea, name) is getattr(fovea.data, name), name, "is two classes")
    check(issubclass(fovea.CheckpointError, fovea.data.DataError) and issubclass(fovea.ConfigError, ValueError), "other parents")
    expect(fovea.ConfigError, ["data.train"], lambda: fovea.data.Loader({"data": {}}))
    expect(fovea.MissingFileError, ["nowhere"], lambda: fovea.data.ImageFolder("nowhere"))
    check("torch" not in sys.modules and "fovea._core" not in sys.modules, "fovea.data has loaded torch")


def check_other_torch():
    """Without the torch of the build the first name that is used says so, and the console script."""
    torches = {"torch 2.99.1 is installed": "lambda name: '2.99.1'", "no torch is installed": "m.distribution"}
    uses = {"ImportError": "import fovea\nfovea.create_model", "error: fovea": "from fovea import _program\n_program.main()"}
    for (found, version), (kind, use) in itertools.product(torches.items(), uses.items()):
        code = f"import importlib.metadata as m\nm.Distribution.discover = lambda **_: iter(())\nm.version = {version}\n{use}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                              env={**os.environ, "PYTHONPATH": sys.argv[1]})
        for word in (kind, found, "pip install torch=="):
            check(done.returncode == 1 and word in done.stderr, f"expected '{word}' in", done.stderr)


def check_like_timm(torch, fovea):
    if importlib.util.find_spec("timm") is None:
        print("timm is not there: models are not held against it")
        return
    import timm
    for name, options in (("vit_small_patch16_224", {}), ("vit_small_patch16_224", {"init_values": 0.1, "qk_norm": True}),
                          ("vit_base_patch16_siglip_224", {"depth": 1})):
        torch.manual_seed(0)
        theirs = timm.create_model(name, **{**SMALL, **options})
        ours = fovea.create_model(name, **{**SMALL, **options})
        shapes = [{key: value.shape for key, value in model.state_dict().items()} for model in (ours, theirs)]
        check(shapes[0] == shapes[1], name, "other names or shapes", shapes)
        ours.load_state_dict(theirs.state_dict())
        images = torch.randn(3, 3, 32, 32)
        results = []
        for model in (ours, theirs):
            x = images.clone().requires_grad_()
            logits = model(x)
            torch.nn.functional.cross_entropy(logits, torch.tensor([0, 3, 6])).backward()
            results.append({"logits": logits, "images": x.grad, **{key: p.grad for key, p in model.named_parameters()}})
        for key, expected in results[1].items():
            check(is_close(results[0][key], expected), name, options, key, "differs by",
                  (results[0][key] - expected).abs().max(), "of", expected.abs().max())
        check(ours.pretrained_cfg["mean"] == tuple(theirs.pretrained_cfg["mean"]), "other preprocessing")
        tokens = ours.forward_features(images)
        check(is_close(ours.forward_head(tokens), theirs.forward_head(theirs.forward_features(images))), name, "in two parts")


def check_module(torch, fovea):
    """What torch does to a module is done to the library's model."""
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL).eval()
    images = torch.randn(2, 3, 32, 32)
    before = model(images)
    check(before.requires_grad and not model(images).equal(model(2 * images)), "no graph, or images are not looked at")
    with torch.no_grad():
        check(not model(images).requires_grad, "a graph without gradients")
    twin, other = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(images).square().sum().backward()
    optimizer.step()
    check(not model(images).equal(before), "an optimizer's step is not seen")
    check(twin(images).equal(before) and other(images).equal(before), "a copy is not one")
    state = io.BytesIO()
    torch.save(model.state_dict(), state)
    twin.load_state_dict(torch.load(io.BytesIO(state.getvalue())))
    check(twin(images).equal(model(images)), "load_state_dict is not seen")
    twin.requires_grad_(False)
    check(not twin(images).requires_grad and not copy.deepcopy(twin).head.weight.requires_grad, "frozen, but with a graph")
    with torch.autocast("cpu", torch.bfloat16):
        half = model(images)
    check(half.dtype == torch.bfloat16 and (half.float() - model(images)).abs().max() < 0.05, "autocast")
    check(model(images.bfloat16()).equal(half), "images in bfloat16 are not what autocast makes of them")


def check_drops(torch, fovea):
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL, drop_path_rate=0.5, proj_drop_rate=0.3)
    images = torch.randn(4, 3, 32, 32)

    def drawn(seed):
        torch.manual_seed(seed)
        return model.train()(images)
    check(drawn(1).equal(drawn(1)) and not drawn(1).equal(drawn(2)), "dropout does not follow torch.manual_seed")
    check(model.eval()(images).equal(model(images)), "dropout in evaluation")


def check_refusals(torch, fovea):
    model = fovea.create_model("vit_tiny_patch16_224", **SMALL)
    images = torch.randn(2, 3, 32, 32)
    expect(TypeError, ["ndarray", "torch.from_numpy"], lambda: model(images.numpy()))
    expect(TypeError, ["uint8", "float32"], lambda: model(images.byte()))
    expect(fovea.ConfigError, ["vit_tiny_patch16_224"], lambda: fovea.create_model("vit_tiny_patch16_22"))
    expect(ValueError, ["dephth", "depth"], lambda: fovea.create_model("vit_tiny_patch16_224", dephth=3))
    expect(TypeError, ["array"], lambda: fovea.train(images.numpy()))
    expect(TypeError, ["array"], lambda: fovea.load_run(images.numpy()))
    expect(fovea.DataError, ["nowhere"], lambda: fovea.load_run("nowhere"))
    expect(fovea.data.MissingFileError, ["none.pth"], lambda: fovea.create_model("vit_tiny_patch16_224", pretrained="none.pth"))
    expect(TypeError, ["pretrained", "array"], lambda: fovea.create_model("vit_tiny_patch16_224", pretrained=images.numpy()))
    expect(fovea.data.MissingFileError, ["none.pth"], lambda: fovea.create_model("vit_tiny_patch16_224.augreg_in21k", pretrained="none.pth"))
    expect(fovea.Error, ["by itself"], lambda: model.head(images))


def program(*words):
    done = subprocess.run([sys.argv[2], *map(str, words)], capture_output=True, text=True, check=False)
    check(done.returncode == 0, *words, done.stdout, done.stderr)
    return done.stdout


def check_training(fovea, folder):
    tiny_run.write(folder / "program", 1, micro_batch_size=8, epochs=2)
    tiny_run.write(folder / "python", 1, micro_batch_size=8, epochs=2)
    program("train", folder / "program/recipe.yaml")
    expected = tiny_run.outcome(folder / "program/run")
    seen = []

    def stop_at_five(progress):
        seen.append((progress.step, progress.metrics["loss"]))
        if progress.step == 5:
            progress.stop()
    recipe = folder / "python/recipe.yaml"
    result = fovea.train(recipe, on_step=stop_at_five, progress=False)
    check(result.stopped and result.step == 5 and [step for step, _ in seen] == [1, 2, 3, 4, 5], "not stopped at 5", result, seen)

    def interrupt(progress):
        if progress.step == 7:
            os.kill(os.getpid(), signal.SIGINT)
    expect(KeyboardInterrupt, [], lambda: fovea.train(recipe, on_step=interrupt, progress=False))

    def fail(progress):
        raise LookupError("of the callback")
    expect(LookupError, ["of the callback"], lambda: fovea.train(recipe, on_step=fail, progress=False))
    evaluations = []
    result = fovea.train(folder / "python/run", on_evaluation=evaluations.append, progress=False)
    check(not result.stopped and result.step == 12 and result.metrics == evaluations[-1].metrics, result, evaluations)
    check(not list(tiny_run.differences(expected, tiny_run.outcome(folder / "python/run"))), "another run than the program's",
          *tiny_run.differences(expected, tiny_run.outcome(folder / "python/run")))
    expect(ValueError, ["optim.lrr"], lambda: fovea.train(recipe, optim={"lrr": 1}))
    expect(ValueError, ["launch.processes"], lambda: fovea.train(recipe, launch={"processes": 2}, run={"dir": folder / "x"}))
    return folder / "python/run"


def check_own_parts(torch, fovea, folder):
    """A set and a loss in Python train as those of the library that are the same."""
    import numpy

    class Images:
        num_classes = 4

        def __init__(self, name):
            self._pixels = numpy.fromfile(folder / f"program/{name}-images", numpy.uint8)[16:].reshape(-1, 8, 8)
            self._labels = numpy.fromfile(folder / f"program/{name}-labels", numpy.uint8)[8:]

        def __len__(self):
            return len(self._labels)

        def __getitem__(self, index):
            return self._pixels[index], self._labels[index]
    fovea.register_dataset("images")(lambda: Images("train"))
    fovea.register_loss("nll")(lambda logits, labels: -(labels * logits.float().log_softmax(1)).sum(1) if labels.dim() == 2 else
                               torch.nn.functional.cross_entropy(logits.float(), labels, reduction="none"))
    text = (folder / "program/recipe.yaml").read_text()
    own = re.sub(r"format: idx\n    images: .*\n    labels: .*", "format: own\n    dataset: images", text, count=1)
    (folder / "own.yaml").write_text(own)
    losses = {}
    for name, recipe, task in (("builtin", folder / "program/recipe.yaml", {}),
                               ("own", folder / "own.yaml", {"loss": "own", "own_loss": "nll"})):
        fovea.train(recipe, progress=False, task=task, run={"dir": folder / name}, trainer={"max_epochs": 1})
        losses[name] = fovea.load_run(folder / name).curve("loss")[1]
    check(abs(losses["own"] - losses["builtin"]).max() < 1e-6, "other losses", losses)

    class Broken(Images):
        def __getitem__(self, index):
            return self._pixels[index].astype(float), 0
    fovea.register_dataset("images")(lambda: Broken("train"))
    expect(TypeError, ["float64", "uint8"], lambda: fovea.train(folder / "own.yaml", progress=False, run={"dir": folder / "broken"}))


def check_own_metric(fovea, folder):
    """Of all samples of an evaluation; the best checkpoint is the one with the most of it."""
    import numpy

    @fovea.register_metric("accuracy")
    def accuracy(logits, labels):
        check(logits.shape == (30, 4) and labels.shape == (30,), "a metric is given", logits.shape, labels.shape)
        return (logits.argmax(1) == labels).float().mean()
    fovea.register_metric("missing")(lambda logits, labels: numpy.float32("nan"))
    fovea.register_metric("each")(lambda logits, labels: logits[:, 0])
    recipe = folder / "program/recipe.yaml"

    def train(*names, **options):
        return fovea.train(recipe, progress=False, task={"own_metrics": list(names)},
                           **{"run": {"dir": folder / "metric"}, "trainer": {"max_epochs": 1}, **options})
    result = train("accuracy", checkpoint={"best_metric": "accuracy"})
    check(abs(100 * result.metrics["accuracy"] - result.metrics["top1"]) < 1e-4, result)
    curve = fovea.load_run(folder / "metric").curve("accuracy", "val")[1]
    check(curve[-1] == result.metrics["accuracy"], curve)
    for name, kind, words in (("missing", fovea.Error, ["'missing' gives nan of 30 samples"]),
                              ("each", TypeError, ["'each' gives an array", "(30,)"]),
                              ("top1", ValueError, ["own_metrics", "top1"]), ("unknown", ValueError, ["unknown", "register_metric"])):
        expect(kind, words, lambda: train(name, run={"dir": folder / f"metric_{name}"}))


def check_predictions(fovea, run, folder):
    import numpy
    pixels = numpy.arange(64, dtype=numpy.uint8).reshape(8, 8) * 3
    image = folder / "image.png"
    image.write_bytes(tiny_run.png(pixels.tobytes(), 8))
    predictor = fovea.Predictor(run)
    best = json.loads(program("predict", run, image, "--json"))["classes"][0]
    by_path = predictor([image])[0]
    label, score = by_path.top(1)[0]
    check((str(label), score) == (str(best["class"]), best["score"]), by_path.top(1), best)
    for other in ([image.read_bytes()], [pixels], [pixels[..., None]]):
        check(numpy.array_equal(predictor(other)[0].scores, by_path.scores), "other scores of the same pixels")
    check(predictor.features([image])[0].shape == (64,), "features")
    check(predictor.attention([image])[0][0].shape == (2, 17, 17), predictor.attention([image])[0][0].shape)
    broken = predictor([b"nothing", b""], errors="return")
    check(all(isinstance(answer, fovea.DataError) for answer in broken), broken)
    expect(fovea.DataError, ["bytes"], lambda: predictor([b"nothing"]))
    expect(TypeError, ["list of inputs"], lambda: predictor(str(image)))
    expect(TypeError, ["float64", "uint8"], lambda: predictor([pixels.astype(float)]))
    expect(fovea.CheckpointError, ["pos_embed"], lambda: fovea.create_model("vit_small_patch16_224", pretrained=run))


def check_run(fovea, folder):
    import numpy
    run = fovea.load_run(folder)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["split"] == "train"]
    table = run.table()
    check(table["step"].tolist() == list(range(1, 13)) and table["loss"].tolist() == losses, table)
    check(run.curve("top1", "val")[0].tolist() == [6, 12] and run.settings["optim.lr"] == "0.003", run.settings)
    check(numpy.isfinite(run.table("val")["loss"]).all() and run.evaluation["num_samples"] == 30, run.evaluation)
    figures = run.figures()
    check(any("oss" in title for title in figures), list(figures))
    for svg in figures.values():
        check(xml.etree.ElementTree.fromstring(svg).tag.endswith("svg"), svg[:100])
    check(pathlib.Path(run.report()).read_text().startswith("<!"), "no report")
    expect(KeyError, ["accuracy", "loss"], lambda: run.curve("accuracy"))


def main():
    check_arguments()
    check_errors_without_torch()
    check_other_torch()
    if missing := missing_packages():
        print(f"python: Skipped\nskipped: {sys.executable} has no {' and no '.join(missing)}; FOVEA_PYTHON names another Python to "
              "CMake (tools/setup/python_env makes one)\n[  SKIPPED ] 1 test")
        return
    import fovea
    import torch
    torch.manual_seed(0)
    check_like_timm(torch, fovea)
    check_module(torch, fovea)
    check_drops(torch, fovea)
    check_refusals(torch, fovea)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run = check_training(fovea, folder)
        check_own_parts(torch, fovea, folder)
        check_own_metric(fovea, folder)
        check_predictions(fovea, run, folder)
        check_run(fovea, run)
    from python_operator_checks import check_operators
    check_operators()
    from python_timm_checks import check_timm_interface
    check_timm_interface()


if __name__ == "__main__":
    main()
