"""Keyword arguments as the values of a recipe. Which keys there are and what they take is for the recipe's own reader to say."""
import json
import math
import numbers
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

_PLAIN_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NO_WORDS = {"true", "false", "null"}


def path_of(value: Any, name: str) -> str:
    """A path as text; TypeError for what is none, such as an array."""
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        return path if isinstance(path, str) else os.fsdecode(path)
    raise TypeError(f"{name}: found {type(value).__module__}.{type(value).__qualname__}, expected a path (str or os.PathLike)")


def yaml_of(value: Any, key: str) -> str:
    """In one line; TypeError names the key and what was found."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
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
    raise TypeError(f"{key}: found {type(value).__module__}.{type(value).__qualname__}, expected text, a number, True or False, "
                    "None, a list or a dict")


def _text(text: str) -> str:
    """A word as it stands, so that it can name an alternative or a choice; all else in quotes, so that it is no number."""
    if _PLAIN_WORD.fullmatch(text) and text.lower() not in _NO_WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


def _number(number: float) -> str:
    if math.isnan(number):
        return ".nan"
    if math.isinf(number):
        return ".inf" if number > 0 else "-.inf"
    return repr(number)
