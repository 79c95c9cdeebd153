"""Models by their names."""
from fovea._library import core  # before torch: it says which torch is wanted

from fovea._arguments import overrides_of
from fovea._model import Model
from fovea.data._values import path_of

_INIT_KEYS = ("skip_head", "adapt_in_chans", "resize_pos_embed", "part")


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
    from_hub = pretrained is True
    file = "" if from_hub or pretrained is None or pretrained is False else path_of(pretrained, "create_model: pretrained")
    if tag and from_hub and not given and not init:
        model = core.fetch_model(name, [])
        return Model(model, preset, [f"model.num_classes={model.num_classes}"])
    if file:
        init["weights"] = file
    elif tag and from_hub:
        init = {"skip_head": num_classes is not None, **init, "weights": f"hf-hub:timm/{name}"}
    elif from_hub:
        given["pretrained"] = True
    if (file or from_hub) and "in_chans" in given:
        init.setdefault("adapt_in_chans", True)
    overrides = overrides_of({"model": given, "init": init, "run": {"seed": seed}})
    return Model(core.make_model(preset, overrides), preset, _without_weights(overrides))


def _without_weights(overrides):
    """What gives the same model with values of its own, for a copy."""
    return [text for text in overrides if not text.startswith(("init.", "model.pretrained="))]
