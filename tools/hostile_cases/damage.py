"""Which damage a case does, and how it is done."""
import dataclasses
import pathlib
import random
import typing

from . import layers, mutations, nodes, surroundings, texts
from .originals import Original

CHANGES = {**mutations.MUTATIONS, **texts.MUTATIONS}
ODD_NAME = "odd name"
ALL_KINDS = [*CHANGES, *nodes.NODES, *nodes.MOVES]
HARMLESS_TO_SUMS = {"splice", "rename", *texts.MUTATIONS}  # what a sum over parts need not notice
TRIES = 20


@dataclasses.dataclass
class Damage:
    words: str
    meanwhile: typing.Callable = lambda seconds: None  # what goes on while the program runs
    has_to_be_noticed: bool = False  # where the format has checksums
    is_renamed: bool = False
    surrounding: str = ""
    more_words: typing.Sequence[str] = ()  # of the command


def draw(original: Original, source: random.Random, in_turn=None):
    """-> the name of a kind of damage: a drawn one, or the one whose turn it is."""
    if not original.victim:
        kinds = original.surroundings
        return source.choice(kinds) if in_turn is None else kinds[in_turn % len(kinds)]
    if in_turn is not None:
        kind = ALL_KINDS[in_turn % len(ALL_KINDS)]
        is_odd = (kind in nodes.MOVES and not original.may_move) or (kind not in CHANGES and not original.lies_in_a_folder)
        return "truncate" if is_odd else kind
    chances = [(mutations.MUTATIONS, 0.2), (texts.MUTATIONS, 0.6)] if original.is_text else \
        [(mutations.MUTATIONS, 0.65), (texts.MUTATIONS, 0.15)]
    if original.lies_in_a_folder:
        chances += [(nodes.NODES, 0.14), (nodes.MOVES, 0.06)] if original.may_move else [(nodes.NODES, 0.2)]
    if original.may_be_renamed:
        chances.append(([ODD_NAME], 0.05))
    table = source.choices([table for table, _ in chances], [chance for _, chance in chances])[0]
    return source.choice(list(table))


def changed(original, kind, data, source):
    """-> (bytes, layer) of a file with this damage, or another one where there is no place for it."""
    for attempt in range(TRIES):
        layer = source.choice(original.layers)
        inside, put_back = layer(data, source)
        new = CHANGES[kind if attempt < TRIES // 2 else "flip"](inside, source)
        if new is not None and new != inside:
            return put_back(new), layer
    return data + b"\x1b[31m\xff", layers.whole


def inflict(original: Original, kind: str, path: pathlib.Path, source: random.Random) -> Damage:
    if kind == surroundings.HOSTILE_WORDS:
        key, value = source.choice(surroundings.KEYS), source.choice(surroundings.VALUES)
        return Damage(f"{kind}: {ascii(value[:60])[1:]}", more_words=[key.encode() + b"=" + value])
    if kind in surroundings.SURROUNDINGS:
        return Damage(kind, surrounding=kind)
    if kind == ODD_NAME:
        nodes.rename(path, source)
        return Damage(kind, is_renamed=True)
    if kind in nodes.NODES:
        nodes.put_node(kind, path, source)
        return Damage(f"{kind} in its place", has_to_be_noticed=True)
    if kind in nodes.MOVES:
        return Damage(f"{kind} while it is read", nodes.Moving(path, source, kind), True)
    data, layer = changed(original, kind, path.read_bytes(), source)
    path.unlink()
    path.write_bytes(data)
    if layer is layers.whole:
        return Damage(kind, has_to_be_noticed=kind not in HARMLESS_TO_SUMS)
    return Damage(f"{kind} in {layer.__name__}")
