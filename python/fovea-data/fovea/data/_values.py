"""Arguments as the values of a recipe, here and in the package `fovea`. Which keys there are and what they take is for the recipe's own
reader to say."""
import difflib
import json
import math
import numbers
import os
import re
from collections.abc import Iterable, Mapping, Sequence
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


_OF_DATALOADER = {  # what torch's DataLoader calls it, and what there is
    "num_workers": "threads, of C++, which take no processes", "prefetch_factor": "prefetch", "persistent_workers": "threads, which stay",
    "shuffle": "section: 'train' is shuffled anew each epoch, 'val' is in order", "sampler": "section, rank and world_size",
    "batch_sampler": "batch_size", "drop_last": "section: 'train' has whole batches alone, 'val' every sample",
    "collate_fn": "yields", "generator": "seed",
}


def hint_of(key: str, keywords: Iterable[str]) -> str:
    """Which of these keywords somebody may have meant by an unknown one; empty: none."""
    if key in _OF_DATALOADER:
        return f"; in place of a DataLoader's {key} there is {_OF_DATALOADER[key]}"
    near = difflib.get_close_matches(key, keywords, 1, 0.75)
    return f"; did you mean {near[0]}?" if near else ""


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
