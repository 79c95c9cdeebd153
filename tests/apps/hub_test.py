#!/usr/bin/env python3
"""Weights by name: `fovea` on an imitation of the Hugging Face hub, and beside huggingface_hub on the same one.

usage: hub_test.py FOVEA [--oracle]. With --oracle what Python's huggingface_hub keeps is compared with what Fovea keeps, and each
has to find the other's files; it needs a Python that has huggingface_hub: $FOVEA_HUB_PYTHON, $FOVEA_PYTHON or this one.
"""
import array
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hub_server  # noqa: E402
import tiny_run  # noqa: E402

GOLDEN = ROOT / "tests/golden"
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 16, "patch_size": 8}
VIT = {"model_type": "vit", **SIZES, "intermediate_size": 32, "layer_norm_eps": 1e-12, "hidden_act": "gelu"}
# Of a repository: config, weights, its name for them, and what the golden model gave.
GOLDENS = {
    "org/vit": ({**VIT, "architectures": ["ViTForImageClassification"],
                 "id2label": {str(i): f"class {i}" for i in range(5)}}, "hf_vit.safetensors", "model.safetensors", "hf_vit/logits"),
    "org/pooled": ({**VIT, "architectures": ["ViTModel"]}, "hf_vit_model.bin", "pytorch_model.bin", "hf_vit_model/logits"),
    "org/gated": ({"model_type": "dinov2", **SIZES, "use_swiglu_ffn": True, "layer_norm_eps": 1e-6}, "hf_dinov2.safetensors",
                  "model.safetensors", "hf_dinov2/features"),
    "org/registers": ({"model_type": "dinov2_with_registers", **SIZES, "mlp_ratio": 2, "num_register_tokens": 3,
                       "layer_norm_eps": 1e-6}, "hf_dinov2_registers.safetensors", "model.safetensors",
                      "hf_dinov2_registers/features"),
}
TIMM, HEADLESS = "vit_tiny_patch16_224", "vit_small_patch8_224"
TIMM_ARGS = {"img_size": 8, "patch_size": 4, "embed_dim": 16, "depth": 1, "num_heads": 2}
TIMM_CONFIG = {
    "architecture": TIMM, "num_classes": 3, "global_pool": "token", "label_names": ["ant", "bee", "cow"],
    "model_args": TIMM_ARGS,
    "pretrained_cfg": {"input_size": [1, 8, 8], "mean": [0.25], "std": [0.5], "crop_pct": 1.0, "crop_mode": "center",
                       "interpolation": "bilinear"}}


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"hub_test: {' '.join(map(str, what))}")


def safetensors(tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def timm_weights(has_head=True):
    """A ViT of TIMM_ARGS under timm's names."""
    dim, hidden = 16, 64
    shapes = {"cls_token": [1, 1, dim], "pos_embed": [1, 5, dim], "patch_embed.proj.weight": [dim, 1, 4, 4],
              "patch_embed.proj.bias": [dim], "norm.weight": [dim], "norm.bias": [dim]}
    for name, rows, columns in (("attn.qkv", 3 * dim, dim), ("attn.proj", dim, dim), ("mlp.fc1", hidden, dim),
                                ("mlp.fc2", dim, hidden)):
        shapes |= {f"blocks.0.{name}.weight": [rows, columns], f"blocks.0.{name}.bias": [rows]}
    for name in ("norm1", "norm2"):
        shapes |= {f"blocks.0.{name}.weight": [dim], f"blocks.0.{name}.bias": [dim]}
    if has_head:  # last, so that the others are the same without it
        shapes |= {"head.weight": [3, dim], "head.bias": [3]}
    tensors, number = {}, 1
    for name, shape in shapes.items():
        count = 1
        for side in shape:
            count *= side
        values = array.array("f")
        for _ in range(count):
            number = number * 48271 % 2147483647
            values.append(number / 2147483647 - 0.5)
        tensors[name] = (shape, values.tobytes())
    return safetensors(tensors)


class Place:
    """The program with a cache of its own."""

    def __init__(self, fovea, hub, folder):
        self.fovea, self.hub, self.cache = fovea, hub, folder / "hub"
        self.variables = {**os.environ, "HF_HOME": str(folder), "HF_ENDPOINT": hub.url, "HOME": str(folder), "NO_PROXY": "*"}
        for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HF_TOKEN_PATH", "HTTP_PROXY", "http_proxy"):
            self.variables.pop(name, None)

    def start(self, *words, **variables):
        return subprocess.Popen([str(word) for word in (self.fovea, *words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**self.variables, **variables})

    def run(self, *words, code=0, **variables):
        """Standard output; of a failure that is expected, standard error."""
        process = self.start(*words, **variables)
        out, err = process.communicate()
        check(process.returncode == code, *words, "ended with", process.returncode, out, err)
        return err if code else out

    def contents(self, name):
        """What is kept of a repository: each path with its link or its bytes."""
        folder = self.cache / ("models--" + name.replace("/", "--"))
        return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_bytes()
                for path in folder.rglob("*") if (path.is_symlink() or path.is_file()) and ".no_exist" not in path.parts}


def numbers(tensor):
    dtype, shape, data = tensor
    check(dtype == "F32", "dtype", dtype)
    return shape, array.array("f", data)


def fill(hub):
    for name, (config, source, file, _) in GOLDENS.items():
        hub.repositories[name] = {"config.json": json.dumps(config).encode(), file: (GOLDEN / "weights" / source).read_bytes()}
    hub.repositories[f"timm/{TIMM}.augreg_in21k_ft_in1k"] = {
        "config.json": json.dumps(TIMM_CONFIG).encode(), "model.safetensors": timm_weights()}
    hub.repositories[f"timm/{HEADLESS}.dino"] = {"model.safetensors": timm_weights(has_head=False)}
    hub.repositories["org/empty"] = {"config.json": json.dumps(TIMM_CONFIG).encode()}
    hub.repositories["org/swin"] = {"config.json": b'{"model_type": "swin"}', "model.safetensors": timm_weights()}
    hub.renamed["org/old-name"] = "org/vit"
    hub.gated.add("org/gated")


def check_golden_models(place, folder):
    """Each with what transformers computed of the same images; names, gates and pickles on the way."""
    expected = tiny_run.tensors(GOLDEN / "weights_expected.safetensors")
    images = folder / "images.safetensors"
    images.write_bytes(safetensors({"images": (expected["images"][1], expected["images"][2])}))
    for name, (_, _, _, golden) in GOLDENS.items():
        target = "hf-hub:org/old-name" if name == "org/vit" else f"hf-hub:{name}"
        variables = {"HF_TOKEN": place.hub.token} if name in place.hub.gated else {}
        out = folder / "out.safetensors"
        place.run("predict", target, images, "--out", out, **variables)
        shape, found = numbers(tiny_run.tensors(out)["logits"])
        whole, values = numbers(expected[golden])
        if len(whole) == 3:  # features of all tokens, of which the first is the answer
            per_image, width = whole[1] * whole[2], whole[2]
            values = [values[i * per_image + j] for i in range(whole[0]) for j in range(width)]
        check(len(found) == len(values), name, "gave", shape, "of", whole)
        worst = max(abs(a - b) for a, b in zip(found, values))
        check(worst < 2e-4, name, "differs by", worst)


def check_timm(place, folder):
    """Its config.json sets model, preprocessing and names; a tag is a name; a recipe starts from it."""
    image = folder / "a.bmp"
    pixels = bytes((i * 37) % 256 for i in range(12 * 12 * 3))
    image.write_bytes(struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(pixels), 0, 0, 54, 40, 12, 12, 1, 24, 0, len(pixels), 0, 0, 0, 0)
                      + pixels)
    by_name = json.loads(place.run("predict", f"{TIMM}.augreg_in21k_ft_in1k", image, "--json"))
    check({top["class"] for top in by_name["classes"]} == {"ant", "bee", "cow"}, "names of classes", by_name)
    file = folder / "converted.safetensors"
    place.run("convert", f"hf-hub:timm/{TIMM}.augreg_in21k_ft_in1k", file)
    recipe = folder / "model.yaml"
    model = {"name": "vit", **TIMM_ARGS, "in_chans": 1, "num_classes": 3,
             "input": {"mean": [0.25], "std": [0.5], "crop_pct": 1.0, "interpolation": "bilinear"}}
    recipe.write_text(json.dumps({"model": model}))
    by_file = json.loads(place.run("predict", recipe, image, "--weights", file, "--json"))
    check([top["score"] for top in by_file["classes"]] == [top["score"] for top in by_name["classes"]], "by file", by_file, "by name", by_name)

    tiny_run.write_images(folder, "train", 32, 1)
    for preset in (TIMM, HEADLESS):
        check_pretrained(place, folder, preset, tiny_run.tensors(file))


def check_pretrained(place, folder, preset, given):
    """A recipe that starts from the weights, whose classifier is another one or none, and learns nothing."""
    run, recipe = folder / f"run_{preset}", folder / "run.yaml"
    recipe.write_text(json.dumps({
        "run": {"dir": str(run)}, "device": {"type": "cpu", "threads": 1},
        "model": {"name": "vit", "preset": preset, **TIMM_ARGS, "in_chans": 1, "num_classes": 4, "pretrained": True},
        "data": {"train": {"format": "idx", "images": str(folder / "train-images"), "labels": str(folder / "train-labels"),
                           "transforms": ["normalize"]}, "global_batch_size": 16},
        "optim": {"name": "adamw", "lr": 0.0, "weight_decay": 0.0}, "schedule": {"name": "constant"},
        "trainer": {"max_steps": 1}, "log": {"tensorboard": False}}))
    place.run("train", recipe)
    started = tiny_run.tensors(run / "weights.safetensors")
    for name, tensor in given.items():
        check((started[name] == tensor) != name.startswith("head."), preset, "with pretrained: true:", name)


def check_bad_input(place):
    text = place.run("predict", "hf-hub:org/nobody", "a.bmp", code=3)
    check("no such repository, or it is private" in text, text)
    text = place.run("predict", "hf-hub:org/vit@nowhere", "a.bmp", code=3)
    check("no such revision" in text, text)
    text = place.run("predict", "hf-hub:org/gated@main", "a.bmp", HF_HOME=str(place.cache / "other"), code=3)
    check("agreed to terms" in text and "HF_TOKEN" in text, text)
    check("model_type 'swin'" in place.run("predict", "hf-hub:org/swin", "a.bmp", code=4))
    check("no weights in it" in place.run("predict", "hf-hub:org/empty", "a.bmp", code=4))
    check("expected hf-hub:ORG/NAME" in place.run("predict", "hf-hub:org/../vit", "a.bmp", code=3))
    text = place.run("predict", "vit_small_patch16_224.augreg_in21", "a.bmp", code=3)
    check("did you mean vit_small_patch16_224.augreg_in21k?" in text, text)
    listed = place.run("list", "models", "--pretrained")
    check("vit_small_patch16_224.augreg_in21k" in listed and "hf-hub:timm/vit_small_patch16_224.dino" in listed, listed)


def check_killed(fovea, hub, folder):
    """Killed with half of the weights there: the same command fetches the other half."""
    place = Place(fovea, hub, folder / "killed")
    hub.halves = True
    words = ("convert", "hf-hub:org/vit", folder / "vit.safetensors")
    process = place.start(*words)
    check(hub.half_is_sent.wait(60), "nothing was fetched")
    kept = lambda: sum(path.stat().st_size for path in place.cache.rglob("*.incomplete"))  # noqa: E731
    size = len(hub.repositories["org/vit"]["model.safetensors"])
    while kept() < size // 2:
        check(process.poll() is None, "ended by itself", process.stderr)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    hub.halves = False
    hub.go_on.set()
    hub.sent_from.clear()
    place.run(*words)
    check(hub.sent_from == [size // 2], "fetched from byte", hub.sent_from)


def python_with_hub():
    for python in (os.environ.get("FOVEA_HUB_PYTHON"), os.environ.get("FOVEA_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import huggingface_hub"], capture_output=True, check=False).returncode == 0:
            return python
    return None


ORACLE = """
import sys
from huggingface_hub import hf_hub_download
for file in sys.argv[2:]:
    print(hf_hub_download(sys.argv[1], file))
"""


def check_oracle(fovea, hub, folder, python):
    """Both keep the same, and each finds what the other has fetched."""
    ours, theirs = Place(fovea, hub, folder / "ours"), Place(fovea, hub, folder / "theirs")
    ours.run("convert", "hf-hub:org/vit", folder / "by_name.safetensors")
    ours.run("summary", "hf-hub:org/vit")  # config.json too

    def fetch(place, **variables):
        done = subprocess.run([python, "-c", ORACLE, "org/vit", "config.json", "model.safetensors"], capture_output=True, text=True,
                              env={**place.variables, **variables}, check=False)
        check(done.returncode == 0, "huggingface_hub:", done.stderr)
        return done.stdout.split()

    fetch(theirs)
    check(ours.contents("org/vit") == theirs.contents("org/vit"), "kept", ours.contents("org/vit").keys(), "and",
          theirs.contents("org/vit").keys())
    hub.requests.clear()
    theirs.run("summary", "hf-hub:org/vit", HF_HUB_OFFLINE="1")
    for path in fetch(ours, HF_HUB_OFFLINE="1"):
        check(path.startswith(str(ours.cache)), path)
    check(not hub.requests, "offline, and asked", hub.requests)
    locks = {str(path.relative_to(place.cache)) for place in (ours, theirs) for path in place.cache.glob(".locks/*/*.lock")}
    check(len(locks) == 2, "locks of two files:", locks)


def main():
    fovea = pathlib.Path(sys.argv[1]).resolve()
    python = python_with_hub() if "--oracle" in sys.argv else None
    if "--oracle" in sys.argv and python is None:
        print("hub_test: skipped: no Python with huggingface_hub; FOVEA_HUB_PYTHON names one")
        sys.exit(77)
    hub = hub_server.Hub()
    fill(hub)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if python:
            check_oracle(fovea, hub, folder, python)
        else:
            place = Place(fovea, hub, folder / "home")
            check_golden_models(place, folder)
            check_timm(place, folder)
            check_bad_input(place)
            check_killed(fovea, hub, folder)
    hub.close()
    check(not hub.leaked, "the token went to", hub.leaked)
    print("hub_test: passed")


if __name__ == "__main__":
    main()
