"""Golden values for tiling and load balancing: what UCF-VIT and MONAI do.

Usage: python tools/golden/make_tiling.py   (monai 1.5.1, torch 2.11.0, numpy, safetensors)
Writes tests/golden/data_tiling.safetensors. UCF-VIT's rules are stated anew in `axis_starts`, `tile_starts` and
`balance`; they were compared with its own code (commit c114eeb) on the same inputs. Keys:
  counts          [n, 7]: size, tile, overlap in permille, use_all_data, number of tiles, start of the last, step
  tiles.CASE      [n, 3]: starts of all tiles along x, y, z in the order in which they come (z is 0 in 2-D)
  case.CASE       [10]: sizes x, y, z; tile x, y, z; permille, use_all_data, twoD, dimensions
  gaussian.DxHxW  [D, H, W]: MONAI's compute_importance_map(mode="gaussian"); gaussian.HxW in 2-D
  balance.in      [n, 16]: ranks, batch size, single_channel, number of sets, then (images, tiles an image, channels) each
  balance.out     [n, 8]: ranks of each set, then batches_per_rank_epoch of each; -1 in front: refused
"""

import itertools
import math
import pathlib

import numpy as np
from monai.data.utils import compute_importance_map
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data_tiling.safetensors"


def axis_starts(size, tile, overlap, use_all):
    """Starts of the tiles along an axis, and the step between them."""
    shared = int(tile * overlap)
    repeats = int(tile / shared) if shared else 1
    whole = size // tile
    count = (whole - 1) * repeats + 1
    if use_all:
        count += int(np.floor((size / tile - whole) * repeats))
        count += size % (shared or tile) != 0
    step = tile - shared
    starts = [i * step for i in range(count)]
    if use_all:
        starts = [size - tile if start + tile > size else start for start in starts]
    return starts, step


def tile_starts(sizes, tiles, overlap, use_all, two_d, dims):
    """x outermost, z innermost; with two_d slice after slice along z."""
    axes = [axis_starts(sizes[i], tiles[i], overlap, use_all)[0] for i in range(2)]
    if dims == 2:
        axes.append([0])
    elif two_d:
        axes.append(list(range(sizes[2] if use_all else sizes[2] // tiles[2] * tiles[2])))
    else:
        axes.append(axis_starts(sizes[2], tiles[2], overlap, use_all)[0])
    return list(itertools.product(*axes))


def balance(ranks, batch, single_channel, sets):
    """sets: (images, tiles an image, channels) -> ranks and batches of each; None where UCF-VIT stops."""
    tiles = [images * per_image * (channels if single_channel else 1) for images, per_image, channels in sets]
    shares = [count / sum(tiles) * ranks for count in tiles]
    given = [int(np.rint(share)) for share in shares]
    while sum(given) != ranks:
        excess = [g - s for g, s in zip(given, shares)]
        if sum(given) > ranks:
            chosen = None
            for i, extra in enumerate(excess):
                if extra < 0:
                    continue
                if chosen is None or given[chosen] == 1 or (extra > excess[chosen] and given[i] > 1):
                    chosen = i
            given[chosen] -= 1
        else:
            given[excess.index(min(excess))] += 1
    if min(given) < 1:
        return None
    images = [math.floor(s[0] / g) for s, g in zip(sets, given)]
    if min(images) < 1:
        return None
    batches = [int(n * s[1] * (s[2] if single_channel else 1) / batch) for n, s in zip(images, sets)]
    return given, batches


def count_rows():
    rows = []
    for tile in (1, 2, 3, 7, 10, 16, 64):
        sizes = sorted({tile, tile + 1, 2 * tile - 1, 2 * tile, 2 * tile + 1, 3 * tile, 5 * tile // 2 + tile, 4 * tile + 3, 256, 301})
        for size, permille, use_all in itertools.product(sizes, (0, 100, 250, 300, 333, 500, 600, 750, 900), (0, 1)):
            if size < tile:
                continue
            starts, step = axis_starts(size, tile, permille / 1000, use_all)
            rows.append([size, tile, permille, use_all, len(starts), starts[-1] if starts else -1, step])
    return np.array(rows, dtype=np.int64)


def cases():
    yield (256, 256, 1), (64, 64, 1), 0, 0, 0, 2
    yield (250, 301, 1), (64, 32, 1), 500, 1, 0, 2
    yield (97, 130, 1), (32, 48, 1), 250, 1, 0, 2
    yield (33, 41, 29), (16, 12, 10), 0, 0, 0, 3
    yield (33, 41, 29), (16, 12, 10), 0, 1, 0, 3
    yield (33, 41, 29), (16, 12, 10), 500, 1, 0, 3
    yield (40, 36, 30), (16, 12, 10), 250, 0, 0, 3
    yield (33, 41, 29), (16, 12, 10), 0, 0, 1, 3
    yield (33, 41, 29), (16, 12, 10), 500, 1, 1, 3


def balance_rows():
    rng = np.random.default_rng(7)
    ins, outs = [], []
    fixed = [(8, 32, 0, [(1000, 64, 1)]), (2, 4, 1, [(10, 8, 1), (10, 8, 3)]), (3, 1, 0, [(1, 1, 1), (100, 1, 1)]),
             (3, 1, 0, [(60, 1, 1), (70, 1, 1), (170, 1, 1)]), (8, 2, 0, [(5, 4, 1), (5, 4, 1), (5, 4, 1)]), (7, 2, 1, [(9, 8, 2), (9, 8, 2), (7, 27, 1), (3, 1, 1)])]
    for i in range(400):
        if i < len(fixed):
            ranks, batch, single, sets = fixed[i]
        else:
            ranks, batch, single = int(rng.integers(1, 65)), int(rng.integers(1, 9)), int(rng.integers(0, 2))
            sets = [(int(rng.integers(1, 3000) if rng.random() < 0.7 else rng.integers(1, 60)), int(rng.integers(1, 65)), int(rng.integers(1, 5)))
                    for _ in range(rng.integers(1, 5))]
        result = balance(ranks, batch, single, sets)
        flat = [ranks, batch, single, len(sets)] + [value for one in sets for value in one]
        ins.append(flat + [0] * (16 - len(flat)))
        pad = [0] * (4 - len(sets))
        outs.append([-1] * 8 if result is None else result[0] + pad + result[1] + pad)
    return np.array(ins, dtype=np.int64), np.array(outs, dtype=np.int64)


def main():
    tensors = {"counts": count_rows()}
    for number, (sizes, tiles, permille, use_all, two_d, dims) in enumerate(cases()):
        tensors[f"case.{number}"] = np.array([*sizes, *tiles, permille, use_all, two_d, dims], dtype=np.int64)
        starts = tile_starts(sizes, tiles, permille / 1000, use_all, two_d, dims)
        tensors[f"tiles.{number}"] = np.array(starts, dtype=np.int64)
    for shape in ((8, 8), (5, 12), (1, 7), (6, 5, 9), (2, 3, 1), (16, 4, 6)):
        name = "gaussian." + "x".join(map(str, shape))
        tensors[name] = compute_importance_map(shape, mode="gaussian").numpy()
    tensors["gaussian_wide.7x6"] = compute_importance_map((7, 6), mode="gaussian", sigma_scale=0.4).numpy()
    tensors["balance.in"], tensors["balance.out"] = balance_rows()
    save_file(tensors, OUT)


if __name__ == "__main__":
    main()
