"""Models of Fovea as modules of torch."""
import copy

from fovea._library import core  # before torch: it says which torch is wanted

import torch

from fovea._operators import refuse_second_derivatives, run as run_as_operator, text_of
from fovea._parts import Part, PartList, extras_of, give_extras, part_for
from fovea.data._errors import Error

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_PRECISION = ("Fovea keeps its weights so, and computes in the dtype of the input. Give it bfloat16 images, or use torch.autocast, in place of "
              ".to(dtype) or .half()")
_INSTEAD = {  # what users of timm look for, and what there is
    "reset_classifier": "create_model(..., num_classes=N) makes one with another classifier, drawn anew",
    "set_input_size": "create_model(..., img_size=N, patch_size=N) makes one for other images",
    "prune_intermediate_layers": "create_model(..., depth=N) makes one with fewer blocks",
    "init_weights": "create_model(..., seed=N) makes one with other weights",
    "load_pretrained": "create_model(..., pretrained=FILE) takes a file",
    "global_pool": "it is an argument of create_model",
    "drop_rate": "it is an argument of create_model",
    "feature_info": "forward_intermediates gives the tokens after any block",
}
_CLASSIFIERS = ("head.", "head_dist.")
_HEAD = ("attn_pool.", "fc_norm.", "pre_logits.", *_CLASSIFIERS)
_USES = {  # which parameters each pass reads, by their names
    "forward": lambda path: True,
    "features": lambda path: not path.startswith(_HEAD),
    "head": lambda path: path.startswith(_HEAD),
    "pre_logits": lambda path: path.startswith(_HEAD) and not path.startswith(_CLASSIFIERS),
}


def _is_traced():
    """By something that sees operators alone: torch.export, FakeTensorMode, make_fx."""
    modes = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(mode) is not None for mode in (modes.FAKE, modes.PROXY))


def _watch_gradient(gradient):
    """Kernels look at plain memory, and a graph of what they do in backward would not have it: second derivatives would be wrong."""
    if torch.is_grad_enabled():  # in a backward pass with create_graph=True alone
        refuse_second_derivatives()
    if not torch._C._has_storage(gradient):
        raise Error("a gradient of a transform (torch.func.vmap, is_grads_batched, vectorize=True) that does not see into a Fovea model; "
                    "expected a plain one: ask for one gradient at a time")


def _is_plain(tensor):
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return False
    has_levels = torch.autograd.forward_ad._current_level >= 0
    return not (has_levels and torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None)


def _watched(output):
    if output.requires_grad:
        output.register_hook(_watch_gradient)
    return output


class Model(torch.nn.Module):
    """What create_model gives. Its parameters are the library's own tensors: optimizers, load_state_dict, .to(device), hooks and
    DistributedDataParallel work on them in place, and the library records its pass for autograd kernel by kernel. Where a program is
    traced, or other tensors stand in the parameters' places, a pass is one operator, torch.ops.fovea.model; its numbers are the same."""

    _OF_LIBRARY = ("_library_model", "_made_of", "_text", "_places", "_own", "_used")

    def __init__(self, library_model, name, overrides):
        super().__init__()
        self._library_model = library_model
        self._made_of = (name, overrides)
        self.set_grad_checkpointing(False)
        self._places, self._own = [], []
        for path, parameter in library_model.parameters(torch.nn.Parameter):
            *folders, leaf = path.split(".")
            part = self
            for depth, folder in enumerate(folders):
                if folder not in part._modules:
                    part.add_module(folder, part_for(folders[depth + 1:]))
                part = part._modules[folder]
            part.register_parameter(leaf, parameter)
            self._places.append((tuple(folders), leaf, path))
            self._own.append(parameter)
        self._used = {function: [i for i, (_, _, path) in enumerate(self._places) if uses(path)] for function, uses in _USES.items()}
        self.pretrained_cfg = self.default_cfg = library_model.preprocessing()  # timm.data.resolve_data_config reads it

    @property
    def num_classes(self):
        return self._library_model.num_classes

    @property
    def num_features(self):
        return self._library_model.num_features

    @property
    def embed_dim(self):
        """Of a ViT: the width of a token."""
        return self._library_model.embed_dim

    @property
    def num_prefix_tokens(self):
        """Of a ViT: class and register tokens, in front of those of patches."""
        return self._library_model.num_prefix_tokens

    def __getattr__(self, name):
        if name in _INSTEAD:
            raise AttributeError(f"a Fovea model has no {name}, as timm's have; {_INSTEAD[name]}")
        return super().__getattr__(name)

    def get_classifier(self):
        """The part with the parameters that give logits."""
        return self._modules.get("head", torch.nn.Identity())

    def group_matcher(self, coarse=False):
        """What timm's optimizer factories ask for layer_decay: the layer of a parameter by its name."""
        return self._library_model.layer_id

    def set_grad_checkpointing(self, enable=True):
        """Whether each block runs again in backward, which then needs no room for its activations. The numbers are the same."""
        name, overrides = self._made_of
        if enable or self.__dict__.get("grad_checkpointing"):
            self._library_model.recompute_blocks(bool(enable))
        self.grad_checkpointing = bool(enable)
        self._text = text_of(name, [text for text in overrides if not text.startswith("run.seed=")], self.grad_checkpointing)

    def no_weight_decay(self):
        """Parameters that timm's optimizer factories leave without weight decay."""
        return set(self._library_model.no_weight_decay())

    def forward(self, x):
        """x: [B, C, H, W] (volumes: [B, C, D, H, W]) -> logits [B, num_classes], or what else the model gives."""
        return self._call("forward", x)

    def forward_features(self, x):
        """Of a ViT: x [B, C, H, W] -> tokens [B, N, D] after the final norm."""
        return self._call("features", x)

    def forward_head(self, x, pre_logits=False):
        """Of a ViT: tokens [B, N, D] -> logits [B, num_classes]; pre_logits: what the classifier would see, [B, D]."""
        return self._call("pre_logits" if pre_logits else "head", x)

    @torch.compiler.disable  # within a compiled program it is called as it is
    def forward_intermediates(self, x, indices=None, return_prefix_tokens=False, norm=False, output_fmt="NCHW", intermediates_only=False):
        """Of a ViT, as timm's: what forward_features gives, and the tokens after some blocks.

        indices: of blocks; a number: that many last ones; None: all. norm: through the final norm. output_fmt: "NCHW": a list of maps
        [B, D, rows, columns] of the tokens of patches (of volumes [B, D, ...]); "NLC": of tokens [B, N, D]. return_prefix_tokens: pairs of
        these and [B, prefix, D]. intermediates_only: the list alone."""
        if output_fmt not in ("NCHW", "NLC"):
            raise ValueError(f"forward_intermediates: output_fmt: found {output_fmt!r}; expected 'NCHW' or 'NLC'")
        x, parameters, seed = self._prepared("features", x)
        if x.is_meta or self._has_others(parameters):
            raise Error("forward_intermediates takes the model's own parameters, on a CPU or a GPU: load_state_dict puts values into them")
        depth = len(self.blocks)
        if indices is None or isinstance(indices, int):
            indices = range(depth - (depth if indices is None else indices), depth)
        wanted = sorted({range(depth)[i] for i in indices})
        *found, last = map(_watched, self._library_model.call_blocks(x, wanted, norm, None if seed is None else int(seed)))
        grid, prefix = self._library_model.token_grid(x.shape[2:]), self.num_prefix_tokens
        maps = [tokens[:, prefix:] for tokens in found]
        if output_fmt == "NCHW":
            maps = [tokens.transpose(1, 2).unflatten(2, grid).contiguous() for tokens in maps]
        if return_prefix_tokens and prefix > 0:
            maps = list(zip(maps, [tokens[:, :prefix] for tokens in found]))
        return maps if intermediates_only else (last, maps)

    def get_intermediate_layers(self, x, n=1, reshape=False, return_prefix_tokens=False, norm=False):
        """Of a ViT, as timm's and DINO's: forward_intermediates of the last n blocks, or of these."""
        return self.forward_intermediates(x, n, return_prefix_tokens, norm, "NCHW" if reshape else "NLC", intermediates_only=True)

    def _call(self, function, x):
        x, parameters, seed = self._prepared(function, x)
        if x.is_meta or torch.compiler.is_compiling() or _is_traced() or self._has_others(parameters):
            return self._by_operator(function, x, parameters, seed)
        return _watched(self._library_model.call(function, x, None if seed is None else int(seed)))

    def _prepared(self, function, x):
        """The input as the pass takes it, the parameters, and the seed of dropout and drop path."""
        self._check_input(function, x)
        parameters = self._parameters_now()
        if not (torch.compiler.is_compiling() or _is_traced()):
            self._check_tensors(x, parameters)
        if not x.is_meta and torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return x, parameters, torch.randint(2**62, (), device="cpu") if self.training else None

    def _has_others(self, parameters):
        return any(now is not own for now, own in zip(parameters, self._own))

    def _by_operator(self, function, x, parameters, seed):
        wanted = []
        if torch.is_grad_enabled():
            wanted = [1 + i for i in self._used[function] if parameters[i].requires_grad]
            if x.requires_grad:
                wanted = [0] + wanted
        return run_as_operator(self._text, function, x, parameters, seed, wanted)[0]

    def _parameters_now(self):
        """In the library's order. torch.func.functional_call, FSDP and parametrizations put others in their places."""
        found, parts = [], {}
        for folders, leaf, path in self._places:
            part = parts.get(folders)
            if part is None:
                part = parts[folders] = self._part_at(folders, path)
            value = part._parameters.get(leaf)
            found.append(getattr(part, leaf) if value is None else value)
        return found

    def _part_at(self, folders, path):
        part = self
        for folder in folders:
            part = part._modules.get(folder)
            if not isinstance(part, Part):
                raise Error(f"{path}: another module was put in place of {folder}, which the library does not compute. Change values in "
                            "place, `with torch.no_grad(): parameter.copy_(...)`, or put another parameter there; for another classifier "
                            "create_model(..., num_classes=...)")
        return part

    def _check_input(self, function, x):
        name = self._made_of[0]
        if isinstance(x, torch.fx.Proxy):
            raise Error(f"{name}: torch.fx.symbolic_trace does not see into a Fovea model; torch.compile and torch.export take it")
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name}: found a {type(x).__name__}; expected a torch.Tensor: torch.from_numpy makes one of an "
                            "array, fovea.Predictor takes files and pixels")
        if x.dtype not in _DTYPES:
            raise TypeError(f"{name}: found images of dtype {x.dtype}; expected float32, bfloat16 or float16, normalised as "
                            "pretrained_cfg says")
        if function in ("forward", "features") and x.dim() == len(self.default_cfg["input_size"]):
            raise Error(f"{name}: found one image, {list(x.shape)}; expected a batch of them, [B, C, ...]: x[None] is a batch of one")

    def _check_tensors(self, x, parameters):
        self._check_plain("the input", x)
        for (_, _, path), own, parameter in zip(self._places, self._own, parameters):
            if parameter is not own:
                self._check_plain(path, parameter)
            if parameter.dtype != torch.float32:
                raise Error(f"{path} is {parameter.dtype}; expected float32: {_PRECISION}")
            if parameter.device != x.device:
                raise Error(f"{path} is on {parameter.device}, the input on {x.device}; expected one device: model.to(...) or x.to(...)")

    @staticmethod
    def _check_plain(what, tensor):
        if torch.jit.is_tracing() or not _is_plain(tensor):
            raise Error(f"{what} is a {type(tensor).__name__} of a transform or a tracer (torch.func.grad, vmap or jvp, forward_ad, "
                        "torch.jit, DTensor) that does not see into a Fovea model; expected a plain tensor. torch.compile and torch.export "
                        "take the model, torch.autograd gives gradients, and `fovea export` writes ONNX")

    def __prepare_scriptable__(self):
        raise Error("torch.jit.script does not see into a Fovea model; torch.export.export takes it, and `fovea export` writes ONNX")

    def _apply(self, fn, recurse=True):
        """What .to(), .cuda(), .half() and others do with each tensor."""
        dtype = fn(torch.empty(1, dtype=torch.float32, device="cpu")).dtype
        if dtype != torch.float32:
            raise Error(f"the parameters of a Fovea model as {dtype}; expected float32: {_PRECISION}")
        return super()._apply(fn, recurse)

    def __reduce__(self):
        changed = [path for path, part in self.named_modules() if isinstance(part, Part) and type(part) not in (Part, PartList)]
        if changed:
            raise Error(f"a copy of a model whose {changed[0]} is parametrized; torch.nn.utils.parametrize.remove_parametrizations first, or "
                        "copy its state_dict")
        values = {path: parameter.detach() for (_, _, path), parameter in zip(self._places, self._parameters_now())}
        frozen = [path for path in values if not self.get_parameter(path).requires_grad]
        return _rebuild, (self._made_of, values, frozen), extras_of(self, values, self._OF_LIBRARY)

    def __setstate__(self, extras):
        give_extras(self, extras)
        self.set_grad_checkpointing(self.grad_checkpointing)

    def __deepcopy__(self, memo):
        make, arguments, extras = self.__reduce__()
        twin = memo[id(self)] = make(*arguments)
        for (_, _, path) in self._places:
            memo[id(self.get_parameter(path))] = twin.get_parameter(path)
        twin.__setstate__(copy.deepcopy(extras, memo))
        return twin

    def extra_repr(self):
        name, overrides = self._made_of
        return ", ".join([name, *overrides, f"{sum(p.numel() for p in self.parameters()):,} parameters"])


def _rebuild(made_of, values, frozen):
    name, overrides = made_of
    model = Model(core.make_model(name, overrides), name, overrides).to(next(iter(values.values())).device)
    with torch.no_grad():
        for path, value in values.items():
            model.get_parameter(path).copy_(value).requires_grad_(path not in frozen)
    return model
