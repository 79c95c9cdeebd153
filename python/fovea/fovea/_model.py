"""Models of Fovea as modules of torch."""
from fovea._library import core  # before torch: it says which torch is wanted

import torch

from fovea._arguments import overrides_of
from fovea._operators import run as run_as_operator, text_of
from fovea.data._errors import Error

_INIT_KEYS = ("skip_head", "adapt_in_chans", "resize_pos_embed", "part")
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_CLASSIFIERS = ("head.", "head_dist.")
_HEAD = ("attn_pool.", "fc_norm.", "pre_logits.", *_CLASSIFIERS)
_USES = {  # which parameters each pass reads, by their names
    "forward": lambda path: True,
    "features": lambda path: not path.startswith(_HEAD),
    "head": lambda path: path.startswith(_HEAD),
    "pre_logits": lambda path: path.startswith(_HEAD) and not path.startswith(_CLASSIFIERS),
}


def list_models():
    """The names that create_model takes, timm's."""
    return core.list_models()


def list_pretrained():
    """The names of timm's weights that create_model takes: "vit_small_patch16_224.augreg_in21k"."""
    return core.list_pretrained()


def create_model(name, pretrained=False, *, num_classes=None, seed=0, **options):
    """A model by timm's name: a torch.nn.Module with timm's parameters, state_dict and preprocessing, computed by Fovea's kernels.

    name: of list_models(), or of list_pretrained() with its tag.
    pretrained: True: timm's weights, fetched once from the Hugging Face hub (HF_HUB_OFFLINE and HF_ENDPOINT are heeded); or a weights
        file of Fovea, timm, Hugging Face, DINOv2, MAE or Google, a run folder, or "hf-hub:ORG/NAME". A classifier of another number of
        classes than the hub's weights starts anew.
    num_classes: of the classifier; 0: features. None: as the name has it.
    seed: what weights that are not loaded are drawn from.
    options: keys of a recipe's section `model` (docs/reference.md): img_size, drop_path_rate, global_pool ...; and of `init`: skip_head,
        adapt_in_chans, resize_pos_embed, part, for a file of other shapes.

    The forward pass takes [B, C, H, W] and gives [B, num_classes], in the dtype of its input: float32, bfloat16 or float16. Parameters
    stay float32; under torch.autocast the input is cast, and each product casts its weight.
    """
    if not isinstance(name, str):
        raise TypeError(f"create_model: found a {type(name).__name__}; expected a name of fovea.list_models()")
    preset, _, tag = name.partition(".")
    init = {key: options.pop(key) for key in _INIT_KEYS if key in options}
    given = {**options, **({} if num_classes is None else {"num_classes": num_classes})}
    if tag and pretrained and not given and not init:
        model = core.fetch_model(name, [])
        return Model(model, preset, [f"model.num_classes={model.num_classes}"])
    if tag:
        init = {"skip_head": num_classes is not None, **init, **({"weights": f"hf-hub:timm/{name}"} if pretrained else {})}
    elif isinstance(pretrained, bool):
        given["pretrained"] = pretrained
    else:
        init["weights"] = str(pretrained)
    if pretrained and "in_chans" in given:
        init.setdefault("adapt_in_chans", True)
    overrides = overrides_of({"model": given, "init": init, "run": {"seed": seed}})
    return Model(core.make_model(preset, overrides), preset, _without_weights(overrides))


def _without_weights(overrides):
    """What gives the same model with values of its own, for a copy."""
    return [text for text in overrides if not text.startswith(("init.", "model.pretrained="))]


def _is_traced():
    """By something that sees operators alone: torch.export, FakeTensorMode, make_fx."""
    modes = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(mode) is not None for mode in (modes.FAKE, modes.PROXY))


class _Part(torch.nn.Module):
    """Holds parameters under their names; what is done with them is the model's."""

    def forward(self, *_):
        raise Error("a part of a Fovea model is not computed by itself: call the model, its forward_features or its forward_head")


class Model(torch.nn.Module):
    """What create_model gives. Its parameters are the library's own tensors: optimizers, load_state_dict, .to(device), hooks and
    DistributedDataParallel work on them in place, and the library records its pass for autograd kernel by kernel. Where a program is
    traced, or other tensors stand in the parameters' places, a pass is one operator, torch.ops.fovea.model; its numbers are the same."""

    def __init__(self, library_model, name, overrides):
        super().__init__()
        self._library_model = library_model
        self._made_of = (name, overrides)
        self._text = text_of(name, [text for text in overrides if not text.startswith("run.seed=")])
        self._places, self._own = [], []
        for path, parameter in library_model.parameters(torch.nn.Parameter):
            *folders, leaf = path.split(".")
            part = self
            for folder in folders:
                if folder not in part._modules:
                    part.add_module(folder, _Part())
                part = part._modules[folder]
            part.register_parameter(leaf, parameter)
            self._places.append((folders, leaf, path))
            self._own.append(parameter)
        self._used = {function: [i for i, (_, _, path) in enumerate(self._places) if uses(path)] for function, uses in _USES.items()}
        self.pretrained_cfg = self.default_cfg = library_model.preprocessing()  # timm.data.resolve_data_config reads it

    @property
    def num_classes(self):
        return self._library_model.num_classes

    @property
    def num_features(self):
        return self._library_model.num_features

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

    def _call(self, function, x):
        self._check_input(x)
        parameters = self._parameters_now()
        is_traced = torch.compiler.is_compiling() or _is_traced()
        if not is_traced:
            self._check_tensors(x, parameters)
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        seed = torch.randint(2**62, (), device="cpu") if self.training else None  # of dropout and drop path
        if is_traced or any(now is not own for now, own in zip(parameters, self._own)):
            return self._by_operator(function, x, parameters, seed)
        return self._library_model.call(function, x, None if seed is None else int(seed))

    def _by_operator(self, function, x, parameters, seed):
        wanted = []
        if torch.is_grad_enabled():
            wanted = [1 + i for i in self._used[function] if parameters[i].requires_grad]
            if x.requires_grad:
                wanted = [0] + wanted
        return run_as_operator(self._text, function, x, parameters, seed, wanted)[0]

    def _parameters_now(self):
        """In the library's order. torch.func.functional_call, FSDP and parametrizations put others in their places."""
        found = []
        for folders, leaf, path in self._places:
            part = self
            for folder in folders:
                part = part._modules.get(folder)
                if not isinstance(part, _Part):
                    raise Error(f"{path}: another module was put in place of {folder}, which the library does not compute. Change values in "
                                "place, `with torch.no_grad(): parameter.copy_(...)`, or put another parameter there; for another classifier "
                                "create_model(..., num_classes=...)")
            found.append(getattr(part, leaf))
        return found

    def _check_input(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{self._made_of[0]}: found a {type(x).__name__}; expected a torch.Tensor: torch.from_numpy makes one of an "
                            "array, fovea.Predictor takes files and pixels")
        if x.dtype not in _DTYPES:
            raise TypeError(f"{self._made_of[0]}: found images of dtype {x.dtype}; expected float32, bfloat16 or float16, normalised as "
                            "pretrained_cfg says")

    def _check_tensors(self, x, parameters):
        self._check_plain("the input", x)
        for (_, _, path), parameter in zip(self._places, parameters):
            self._check_plain(path, parameter)
            if parameter.dtype != torch.float32:
                raise Error(f"{path} is {parameter.dtype}; expected float32: Fovea keeps its weights so, and computes in the dtype of "
                            "the input. Give it bfloat16 images, or use torch.autocast, in place of .to(dtype) or .half()")
            if parameter.device != x.device:
                raise Error(f"{path} is on {parameter.device}, the input on {x.device}; expected one device: model.to(...) or x.to(...)")

    @staticmethod
    def _check_plain(what, tensor):
        is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
        if not is_plain or torch.jit.is_tracing():
            raise Error(f"{what} is a {type(tensor).__name__} of a transform or a tracer (torch.func.grad or vmap, torch.jit, DTensor) that "
                        "does not see into a Fovea model; expected a plain tensor. torch.compile and torch.export take the model, "
                        "torch.autograd gives gradients, and `fovea export` writes ONNX")

    def __reduce__(self):
        frozen = [name for name, parameter in self.named_parameters() if not parameter.requires_grad]
        return _rebuild, (self._made_of, self.state_dict(), self.training, frozen)

    def __deepcopy__(self, memo):
        make, (made_of, state, training, frozen) = self.__reduce__()
        copy = memo[id(self)] = make(made_of, state, training, frozen)
        for name, parameter in self.named_parameters():
            memo[id(parameter)] = copy.get_parameter(name)
        return copy

    def extra_repr(self):
        name, overrides = self._made_of
        return ", ".join([name, *overrides, f"{sum(p.numel() for p in self.parameters()):,} parameters"])


def _rebuild(made_of, state, training, frozen):
    name, overrides = made_of
    model = Model(core.make_model(name, overrides), name, overrides)
    model.to(next(iter(state.values())).device).load_state_dict(state)
    for parameter in frozen:
        model.get_parameter(parameter).requires_grad_(False)
    return model.train(training)
