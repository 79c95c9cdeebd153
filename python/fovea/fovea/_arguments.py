"""Keyword arguments as what a recipe says."""
from fovea.data._values import yaml_of


def overrides_of(arguments, prefix=""):
    """{"optim": {"lr": 3e-4}} -> ["optim.lr=0.0003"]: a dict goes into a section. One with a `name` is a section of its own."""
    texts = []
    for key, value in arguments.items():
        if isinstance(value, dict) and "name" not in value:
            texts += overrides_of(value, f"{prefix}{key}.")
        else:
            texts.append(f"{prefix}{key}={yaml_of(value, prefix + key)}")
    return texts
