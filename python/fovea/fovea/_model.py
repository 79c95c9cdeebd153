"""Models of Fovea as modules of torch."""
from fovea._library import core  # before torch: it says which torch is wanted

import torch

from fovea._arguments import overrides_of
from fovea._errors import Error

_INIT_KEYS = ("skip_head", "adapt_in_chans", "resize_pos_embed", "part")
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_NO_GRAPH = ("a Fovea model is one call into C++, whose kernels are fused by hand: torch.compile leaves it as it is, between what it "
             "compiles around it. With fullgraph=True, torch.export or torch.jit there is no graph of it: leave fullgraph out, or "
             "export the weights with `fovea export`")


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
    modes = torch._C._TorchDispatchModeKey
    return torch.jit.is_tracing() or any(torch._C._get_dispatch_mode(mode) is not None for mode in (modes.FAKE, modes.PROXY))


class _Part(torch.nn.Module):
    """Holds parameters under their names; what is done with them is the model's."""

    def forward(self, *_):
        raise Error("a part of a Fovea model is not computed by itself: call the model, its forward_features or its forward_head")


class Model(torch.nn.Module):
    """What create_model gives. Its parameters are the library's own tensors: optimizers, load_state_dict, .to(device), hooks and
    DistributedDataParallel work on them in place. Putting others in their place is refused by the next forward pass."""

    def __init__(self, library_model, name, overrides):
        super().__init__()
        self._library_model = library_model
        self._made_of = (name, overrides)
        self._bound = []
        for path, parameter in library_model.parameters(torch.nn.Parameter):
            *folders, leaf = path.split(".")
            part = self
            for folder in folders:
                if folder not in part._modules:
                    part.add_module(folder, _Part())
                part = part._modules[folder]
            part.register_parameter(leaf, parameter)
            self._bound.append((part._parameters, leaf, parameter, path))
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
        return self._call("forward_features", x)

    def forward_head(self, x, pre_logits=False):
        """Of a ViT: tokens [B, N, D] -> logits [B, num_classes]; pre_logits: what the classifier would see, [B, D]."""
        return self._call("forward_head", x, pre_logits)

    @torch.compiler.disable(reason=_NO_GRAPH)
    def _call(self, function, x, *arguments):
        self._check_input(x)
        self._check_parameters(x.device)
        seed = int(torch.randint(2**62, (), device="cpu")) if self.training else 0  # of dropout and drop path
        return getattr(self._library_model, function)(x, self.training, seed, *arguments)

    def _check_input(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{self._made_of[0]}: found a {type(x).__name__}; expected a torch.Tensor: torch.from_numpy makes one of an "
                            "array, fovea.Predictor takes files and pixels")
        is_plain = type(x) in (torch.Tensor, torch.nn.Parameter) and not torch._C._functorch.is_functorch_wrapped_tensor(x)
        if not is_plain or _is_traced():
            raise Error(f"{self._made_of[0]}: found a {type(x).__name__} of a tracer or a transform (torch.export, torch.jit, torch.func, "
                        f"FakeTensorMode); expected a plain tensor with values: {_NO_GRAPH}")
        if x.dtype not in _DTYPES:
            raise TypeError(f"{self._made_of[0]}: found images of dtype {x.dtype}; expected float32, bfloat16 or float16, normalised as "
                            "pretrained_cfg says")

    def _check_parameters(self, device):
        for parameters, leaf, parameter, path in self._bound:
            if parameters.get(leaf) is not parameter:
                raise Error(f"{path}: another parameter was put in its place, which the library does not see. Change values in place: "
                            "load_state_dict without assign=True, `with torch.no_grad(): parameter.copy_(...)`; for another classifier "
                            "create_model(..., num_classes=...). Parametrizations, FSDP and pruning need modules of torch's own")
            if parameter.dtype != torch.float32:
                raise Error(f"{path} is {parameter.dtype}; expected float32: Fovea keeps its weights so, and computes in the dtype of "
                            "the input. Give it bfloat16 images, or use torch.autocast, in place of .to(dtype) or .half()")
            if parameter.device != device:
                raise Error(f"{path} is on {parameter.device}, the input on {device}; expected one device: model.to(...) or x.to(...)")

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
