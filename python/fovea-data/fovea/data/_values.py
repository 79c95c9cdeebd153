"""Arguments as the values of a recipe, here and in the package `fovea`. Which keys there are and what they take is for the recipe's own
reader to say."""
import json
import math
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN_WORD = re.compile(r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[A-Za-z_]\w*", re.ASCII | re.IGNORECASE)


def described(value: Any) -> str:
    """For messages: "an array of shape (3, 4) and dtype uint8", "a set"."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    return f"a {type(value).__name__}"


def path_of(value: Any, name: str) -> str:
    """A path as text; TypeError for what is none, such as an array."""
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    raise TypeError(f"{name}: found {described(value)}; expected a path, as str or pathlib.Path")


def yaml_of(value: Any, key: str) -> str:
    """In one line; TypeError names the key and what was found."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (str, os.PathLike)):
        return _text(path_of(value, key))
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return _number(float(value))
    if isinstance(value, Mapping):
        items = (f"{json.dumps(str(name), ensure_ascii=False)}: {yaml_of(item, f'{key}.{name}')}" for name, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return "[" + ", ".join(yaml_of(item, f"{key}.{i}") for i, item in enumerate(value)) + "]"
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # one number of an array
        return yaml_of(value.item(), key)
    raise TypeError(f"{key}: found {described(value)}; expected text, a number, True or False, None, a list or a dict")


def _text(text: str) -> str:
    """A word as it stands, so that it can name an alternative or a choice; all else in quotes, so that it is no number."""
    return text if _PLAIN_WORD.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _number(number: float) -> str:
    if math.isfinite(number):
        return repr(number)
    return ".nan" if math.isnan(number) else ".inf" if number > 0 else "-.inf"
