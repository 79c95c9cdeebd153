"""Goldens for checkpoints of t5x: a Rosetta ViT that is stopped, ten further steps of it in float64, and arrays of zarr.

tests/golden/moving/t5x.zip holds checkpoint_7 as t5x's Checkpointer leaves it: the tree of flax.serialization in
`checkpoint`, and beside it one zarr array of tensorstore for each parameter and moment; packed, for it is some 150 files.
moving_t5x.safetensors: batches, losses, learning rates, the weights and moments at step 7 and those that the ten steps end
with, by timm's names (its own reader of Google's arrays makes them). The model is upstream's own layers.py; the arguments by
which its patched Flax names axes are taken off. moving/zarr.zip and zarr.safetensors: one array for each kind that zarr and
numcodecs write, and what zarr reads of it.

flax 0.12.8, optax 0.2.8, jax 0.10.2, tensorstore 0.1.86, zarr 2.18.7, numcodecs 0.15.2, ml_dtypes 0.6.0, timm 1.0.31, torch
2.11.0; from --upstream DIR/{layers,config}.py NVIDIA/JAX-Toolbox 1a3febb rosetta/rosetta/projects/vit.

    pip install flax==0.12.8 optax==0.2.8 tensorstore==0.1.86 zarr==2.18.7 numcodecs==0.15.2
    python tools/golden/make_t5x.py --upstream DIR
"""
import argparse
import json
import pathlib
import sys
import tempfile
import types
import zipfile

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
import ml_dtypes
import numcodecs
import numpy as np
import optax
import tensorstore as ts
import timm
import torch
import zarr
from flax import serialization, traverse_util
from safetensors.torch import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
SIDE, PATCH, DIM, DEPTH, HEADS, CLASSES, HIDDEN, HEAD_DIM = 8, 4, 8, 2, 2, 5, 16, 6
BEFORE, AFTER, BATCH = 7, 10, 6
EPS, BETAS, DECAY, MAX_NORM = 1e-4, (0.9, 0.95), 0.05, 1.0
SCHEDULE = dict(init_value=1e-3, peak_value=0.01, warmup_steps=4, decay_steps=34, end_value=1e-4)


def upstream_layers(folder):
    """layers.py, which wants the Flax of its container and two names of t5x."""
    def without_axes(layer):
        return lambda *args, **kwargs: layer(*args, **{k: v for k, v in kwargs.items() if not k.endswith(("axes", "axis_name"))})

    names = ("Dense", "Conv", "LayerNorm", "MultiHeadDotProductAttention")
    originals = {name: getattr(nn, name) for name in names}
    t5 = types.ModuleType("t5x.examples.t5.layers")
    t5._convert_to_activation_function = lambda name: getattr(nn, name)
    config = types.ModuleType("rosetta.projects.vit.config")
    exec((folder / "config.py").read_text(), vars(config))
    for name, module in {"t5x": None, "t5x.examples": None, "t5x.examples.t5": None, "t5x.examples.t5.layers": t5, "rosetta": None,
                         "rosetta.projects": None, "rosetta.projects.vit": None, "rosetta.projects.vit.config": config}.items():
        sys.modules[name] = module or types.ModuleType(name)
    shim = types.ModuleType("flax.linen")
    vars(shim).update(vars(nn))
    for name in names:
        setattr(shim, name, without_axes(originals[name]))
    layers = types.ModuleType("layers")
    sys.modules["layers"] = layers
    source = (folder / "layers.py").read_text().replace("import flax.linen as nn", "nn = __shim__")
    layers.__shim__ = shim
    exec(source, vars(layers))
    return layers, config


def randomise(params, seed):
    rng = np.random.default_rng(seed)
    flat = traverse_util.flatten_dict(params, sep="/")
    flat = {name: jnp.asarray(rng.standard_normal(value.shape) * 0.3 + (name.endswith("scale")), jnp.float32)
            for name, value in sorted(flat.items())}
    return traverse_util.unflatten_dict(flat, sep="/")


class Run:
    def __init__(self, model, params, seed):
        self.model, self.params, self.rng = model, params, np.random.default_rng(seed)
        self.rate = optax.warmup_cosine_decay_schedule(**SCHEDULE)
        # optimizers.chain of optax.clip_by_global_norm and optax.adamw, as pretrain.gin has it.
        self.optimizer = optax.chain(optax.clip_by_global_norm(MAX_NORM),
                                     optax.adamw(self.rate, b1=BETAS[0], b2=BETAS[1], eps=EPS, weight_decay=DECAY))
        self.state, self.step = self.optimizer.init(params), 0

    def take(self, count):
        self.images, self.labels, self.losses, self.rates = [], [], [], []

        def loss_of(params, images, labels):
            logits = self.model.apply({"params": params}, pixel_values=images, deterministic=True)
            return -jnp.mean(jnp.sum(nn.log_softmax(logits) * jax.nn.one_hot(labels, CLASSES), axis=1))

        for _ in range(count):
            images = self.rng.standard_normal((BATCH, SIDE, SIDE, 1)).astype(np.float32)
            labels = self.rng.integers(0, CLASSES, BATCH)
            dtype = jax.tree_util.tree_leaves(self.params)[0].dtype
            loss, grads = jax.value_and_grad(loss_of)(self.params, jnp.asarray(images, dtype), labels)
            self.rates.append(float(self.rate(self.step)))
            updates, self.state = self.optimizer.update(grads, self.state, self.params)
            self.params = optax.apply_updates(self.params, updates)
            self.step += 1
            self.images.append(images)
            self.labels.append(labels)
            self.losses.append(float(loss))

    def to_double(self):
        def double(x):
            return x.astype(jnp.float64) if x.dtype == jnp.float32 else x
        self.params, self.state = jax.tree_util.tree_map(double, (self.params, self.state))
        self.model = self.model.clone()
        self.model.config.dtype = jnp.float64


def write_array(folder, name, array, metadata):
    """As checkpoints._get_spec and _write_array: what is kept of it in the tree is the spec with a relative path."""
    spec = {"driver": "zarr", "dtype": jnp.dtype(array.dtype).name, "kvstore": {"driver": "file", "path": name.replace("/", ".")},
            "metadata": metadata}
    kept = ts.Spec(spec).to_json()
    spec["kvstore"]["path"] = str(folder / spec["kvstore"]["path"])
    ts.open(ts.Spec(spec), create=True, open=True).result().write(np.asarray(array)).result()
    return kept


def save_t5x(run, folder):
    folder.mkdir(parents=True)
    state = serialization.to_state_dict({"step": np.int32(run.step), "param_states": serialization.to_state_dict(run.state)})
    # OptaxWrapper.state_dict: states without arrays are left out.
    state = traverse_util.unflatten_dict(traverse_util.flatten_dict(state, sep="/"), sep="/")
    tree = {"target": serialization.to_state_dict(run.params), "state": state}
    flat = traverse_util.flatten_dict(tree, sep="/")
    written = {}
    for name, array in flat.items():
        array = np.asarray(array)
        if array.ndim == 0:  # it has no axes that could be shared out
            written[name] = array
            continue
        # gzip is t5x's own and zstd is what JAX says of its arrays; a process writes its part.
        is_shared = name.endswith(("pos_embedding", "query/kernel", "head/kernel"))
        chunks = [2, *array.shape[1:]] if is_shared else list(array.shape)
        metadata = {"compressor": {"id": "gzip" if name.startswith("target") else "zstd"}, "shape": list(array.shape), "chunks": chunks}
        written[name] = write_array(folder, name, array, metadata)
    tree = traverse_util.unflatten_dict(written, sep="/")
    (folder / "checkpoint").write_bytes(serialization.to_bytes({"version": 3, "optimizer": tree}))


def pack(folder, path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.writestr(zipfile.ZipInfo(file.relative_to(folder).as_posix()), file.read_bytes(), zipfile.ZIP_DEFLATED)
    print(path.name, path.stat().st_size)


def timm_names(tree):
    """By timm's reader of Google's arrays; what it has not, a layer before the head, by hand."""
    flat = traverse_util.flatten_dict(tree, sep="/")
    google = {}
    for name, array in flat.items():
        short = name.removeprefix("vision_model/").removeprefix("VisionTransformer/")
        array = np.asarray(array, np.float64)
        if short == "cls":
            array = array[None, None]
        elif short.endswith("pos_embedding"):
            short, array = "pos_embedding", array[None]
        google[short] = array
    kernel, bias = google.pop("pre_logits/kernel"), google.pop("pre_logits/bias")
    head = google["head/kernel"]
    google["head/kernel"] = np.zeros((DIM, CLASSES))  # behind the layer that timm's model has not
    with tempfile.TemporaryDirectory() as folder:
        np.savez(folder + "/w.npz", **{f"params/{name}": array for name, array in google.items()})
        model = timm.models.VisionTransformer(
            img_size=SIDE, patch_size=PATCH, in_chans=1, embed_dim=DIM, depth=DEPTH, num_heads=HEADS, mlp_ratio=HIDDEN / DIM,
            num_classes=CLASSES).double()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.fill_(torch.nan)
            model.load_pretrained(folder + "/w.npz")
    tensors = {name: t.detach() for name, t in model.state_dict().items()}
    tensors["head.weight"] = torch.tensor(head.T.copy())
    tensors |= {"pre_logits.fc.weight": torch.tensor(kernel.T.copy()), "pre_logits.fc.bias": torch.tensor(bias)}
    assert not any(t.isnan().any() for t in tensors.values())
    return tensors


def adam(state):
    return state[1][0]


def rosetta(upstream):
    layers, config = upstream_layers(upstream)
    vit = dict(hidden_size=DIM, num_hidden_layers=DEPTH, num_attention_heads=HEADS, intermediate_size=HIDDEN, patch_size=PATCH,
               image_size=SIDE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, representation_size=HEAD_DIM,
               num_classes=CLASSES, layer_norm_eps=1e-5)
    model = layers.FlaxGViTForImageClassificationModule(config.GoogleViTConfig(**vit))
    variables = model.init(jax.random.PRNGKey(0), pixel_values=jnp.zeros((1, SIDE, SIDE, 1)), deterministic=True)
    run = Run(model, randomise(flax.core.unfreeze(variables["params"]), 1), 2)
    run.take(BEFORE)
    with tempfile.TemporaryDirectory() as folder:
        save_t5x(run, pathlib.Path(folder) / f"checkpoint_{BEFORE}")
        pack(pathlib.Path(folder), OUT / "moving" / "t5x.zip")
    tensors = {}

    def keep(group, tree):
        for name, tensor in timm_names(tree).items():
            tensors[f"{group}/{name}"] = tensor.float().contiguous().clone()

    keep("before", run.params)
    keep("before_exp_avg", adam(run.state).mu)
    keep("before_exp_avg_sq", adam(run.state).nu)
    run.to_double()
    run.take(AFTER)
    keep("final", run.params)
    keep("state/exp_avg", adam(run.state).mu)
    keep("state/exp_avg_sq", adam(run.state).nu)
    images = torch.tensor(np.stack(run.images)).permute(0, 1, 4, 2, 3).contiguous()
    tensors |= {"images": images, "labels": torch.tensor(np.stack(run.labels)),
                "losses": torch.tensor(run.losses, dtype=torch.float64), "rates": torch.tensor(run.rates, dtype=torch.float64)}
    golden = {"vit": {"img_size": [SIDE], "patch_size": [PATCH], "in_chans": 1, "embed_dim": DIM, "depth": DEPTH, "num_heads": HEADS,
                      "mlp_ratio": HIDDEN / DIM, "num_classes": CLASSES, "representation_size": HEAD_DIM, "act_layer": "gelu_tanh",
                      "norm_eps": 1e-5},
              "optim": {"lr": 0.01, "betas": list(BETAS), "eps": EPS, "weight_decay": DECAY, "decay_all": True},
              "schedule": {"total_steps": 30, "min_lr": 1e-4, "warmup_steps": 4, "warmup_lr": 1e-3, "warmup_prefix": True},
              "steps": BEFORE, "max_grad_norm": MAX_NORM}
    path = OUT / "moving_t5x.safetensors"
    save_file(tensors, path, metadata={"config": json.dumps(golden), "versions": json.dumps(
        {"flax": flax.__version__, "optax": optax.__version__, "jax": jax.__version__, "maker": "tools/golden/make_t5x.py"})})
    print([round(loss, 3) for loss in run.losses], path.stat().st_size)


def kinds():
    rng = np.random.default_rng(3)
    values = rng.standard_normal((5, 7)).astype(np.float32)
    gzip, zlib, zstd = numcodecs.GZip(5), numcodecs.Zlib(1), numcodecs.Zstd(3)
    arrays = {
        "gzip": dict(data=values, chunks=(2, 3), compressor=gzip),
        "zlib": dict(data=values, chunks=(5, 7), compressor=zlib),
        "zstd": dict(data=values, chunks=(3, 3), compressor=zstd),
        "none": dict(data=values, chunks=(2, 7), compressor=None),
        "fortran": dict(data=values, chunks=(2, 3), compressor=gzip, order="F"),
        "slashes": dict(data=values, chunks=(2, 3), compressor=None, dimension_separator="/"),
        "big_endian": dict(data=values.astype(">f4"), chunks=(5, 3), compressor=zstd),
        "double": dict(data=values.astype(np.float64), chunks=(4, 4), compressor=gzip),
        "half": dict(data=values.astype(np.float16), chunks=(4, 4), compressor=gzip),
        "integers": dict(data=np.arange(-6, 6, dtype=np.int64), chunks=(5,), compressor=zlib),
        "bytes": dict(data=np.arange(12, dtype=np.uint8).reshape(3, 4), chunks=(2, 2), compressor=zlib),
        "flags": dict(data=np.arange(12).reshape(3, 4) % 3 == 0, chunks=(2, 2), compressor=zlib),
        "scalar": dict(data=np.float32(2.5), chunks=(), compressor=None),
        "volume": dict(data=rng.standard_normal((3, 4, 5, 2)).astype(np.float32), chunks=(2, 3, 2, 2), compressor=zstd),
    }
    expected = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for name, options in arrays.items():
            array = zarr.array(store=zarr.DirectoryStore(str(folder / name)), **options)
            expected[name] = torch.tensor(np.array(array[...], array.dtype.newbyteorder("="), order="C"))
        holes = zarr.open(zarr.DirectoryStore(str(folder / "holes")), "w", shape=(5, 7), chunks=(2, 3), dtype="<f4", fill_value=1.5,
                          compressor=gzip)
        holes[0:2, 3:6] = values[0:2, 3:6]
        expected["holes"] = torch.tensor(holes[...])
        zarr.array(values, chunks=(2, 3), store=zarr.DirectoryStore(str(folder / "blosc")))
        half = values.astype(ml_dtypes.bfloat16)
        write_array(folder, "bfloat16", half, {"compressor": {"id": "zstd"}, "shape": [5, 7], "chunks": [2, 7]})
        expected["bfloat16"] = torch.tensor(half.astype(np.float32)).bfloat16()
        zeros = np.zeros((4, 3), np.float32)  # of which tensorstore writes no chunk
        write_array(folder, "zeros", zeros, {"compressor": {"id": "gzip"}, "shape": [4, 3], "chunks": [2, 3]})
        expected["zeros"] = torch.zeros(4, 3)
        pack(folder, OUT / "moving" / "zarr.zip")
    save_file(expected, OUT / "zarr.safetensors", metadata={"versions": json.dumps(
        {"zarr": zarr.__version__, "numcodecs": numcodecs.__version__, "maker": "tools/golden/make_t5x.py"})})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    torch.set_num_threads(1)
    rosetta(arguments.upstream)
    kinds()
