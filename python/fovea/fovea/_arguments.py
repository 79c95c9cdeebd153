"""Keyword arguments as what a recipe says."""
import json
import math
import numbers
import os
import re

_PLAIN_WORD = re.compile(r"(?!(?:true|false|null|yes|no|on|off)$)[A-Za-z_]\w*", re.ASCII | re.IGNORECASE)


def overrides_of(arguments, prefix=""):
    """{"optim": {"lr": 3e-4}} -> ["optim.lr=0.0003"]: a dict goes into a section. One with a `name` is a section of its own."""
    texts = []
    for key, value in arguments.items():
        if isinstance(value, dict) and "name" not in value:
            texts += overrides_of(value, f"{prefix}{key}.")
        else:
            texts.append(f"{prefix}{key}={yaml_of(value, prefix + key)}")
    return texts


def yaml_of(value, key):
    """In one line. A word stands without quotes: it may name an alternative, such as an optimizer."""
    if hasattr(value, "tolist"):  # a number or an array of numpy
        value = value.tolist()
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return value if _PLAIN_WORD.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, (bool, numbers.Integral)):
        return json.dumps(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}[str(value)]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(yaml_of(item, key) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {yaml_of(item, f'{key}.{name}')}" for name, item in value.items()) + "}"
    raise TypeError(f"{key}: found {described(value)}; expected what a recipe can hold: numbers, texts, lists and dicts")


def path_of(value, what):
    """A str of a str or a Path."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    raise TypeError(f"{what}: found {described(value)}; expected a path, as str or pathlib.Path")


def described(value):
    """For messages: "an array of shape (3, 4) and dtype uint8", "a set"."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    return f"a {type(value).__name__}"
