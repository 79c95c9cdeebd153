"""Fovea for Python: vision transformers that train and answer in C++.

    model = fovea.create_model("vit_small_patch16_224", pretrained=True, num_classes=10)
    result = fovea.train("recipe.yaml", optim={"lr": 3e-4})
    predictor = fovea.Predictor(result.run_dir)
    run = fovea.load_run(result.run_dir)

`import fovea` loads nothing: torch and the library come with the first of these names that is used. `fovea.data`, the wheel
fovea-data, which this one requires, needs neither.
"""
import importlib

_PLACES = {
    "_create": ("create_model", "list_models", "list_pretrained"),
    "_model": ("Model",),
    "_predictor": ("Predictor",),
    "_run": ("load_run", "Run"),
    "_training": ("train", "TrainResult", "Progress"),
    "_own_parts": ("register_dataset", "register_loss", "register_metric"),
    "data._errors": ("Error", "ConfigError", "DataError", "MissingFileError", "CheckpointError", "DivergedError"),
    "_built": ("__version__",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}
__all__ = sorted(_PLACE_OF.keys() - {"__version__"})


def __getattr__(name):
    if name not in _PLACE_OF:
        raise AttributeError(f"module 'fovea' has no attribute '{name}'; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"fovea.{_PLACE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return [*globals(), *__all__]
