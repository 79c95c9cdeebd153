"""Reference position embeddings: each family's resizing, and the sin-cos tables, from their formulas."""
import numpy as np
import torch
import torch.nn.functional as F
from scipy import ndimage


def resize(table, old_grid, new_grid, num_prefix, interp):
    """table: [1, prefix + N, D] over old_grid -> over new_grid."""
    old_grid, new_grid = tuple(old_grid), tuple(new_grid)
    if old_grid == new_grid:
        return table
    dim = table.shape[-1]
    rows = table[:, num_prefix:].reshape(1, *old_grid, dim).movedim(-1, 1)  # [1, D, *grid]
    if len(old_grid) == 3:
        rows = F.interpolate(rows, size=new_grid, mode="trilinear", align_corners=interp == "zoom")
    elif interp == "bicubic":
        rows = F.interpolate(rows, size=new_grid, mode="bicubic", antialias=True)
    elif interp == "bilinear":
        rows = F.interpolate(rows, size=new_grid, mode="bilinear")
    elif interp == "zoom":
        rows = F.interpolate(rows, size=new_grid, mode="bilinear", align_corners=True)
    elif interp == "dinov2":
        scale = tuple((new + 0.1) / old for new, old in zip(new_grid, old_grid))
        rows = F.interpolate(rows, scale_factor=scale, mode="bicubic")
        assert tuple(rows.shape[2:]) == new_grid
    else:
        raise ValueError(interp)
    return torch.cat([table[:, :num_prefix], rows.flatten(2).transpose(1, 2)], 1)


def zoom(table, old_grid, new_grid, num_prefix):
    """As the Flax ViT's loader: scipy's order-1 zoom of the grid."""
    dim = table.shape[-1]
    grid = table[0, num_prefix:].reshape(*old_grid, dim).numpy()
    factors = [new / old for new, old in zip(new_grid, old_grid)] + [1]
    rows = torch.from_numpy(ndimage.zoom(grid, factors, order=1)).reshape(1, -1, dim)
    return torch.cat([table[:, :num_prefix], rows], 1)


def sincos(grid, dim, num_prefix):
    """MAE's table for two sides (columns first), one third of the width for each of three sides."""
    sides = len(grid)
    features = dim // sides
    omega = 1.0 / 10000 ** (np.arange(features // 2, dtype=np.float64) / (features / 2.0))
    coordinates = np.meshgrid(*[np.arange(s, dtype=np.float64) for s in grid], indexing="ij")
    if sides == 2:
        coordinates = coordinates[::-1]
    parts = []
    for coordinate in coordinates:
        angle = np.einsum("n,f->nf", coordinate.reshape(-1), omega)
        parts += [np.sin(angle), np.cos(angle)]
    table = np.concatenate(parts, axis=1)
    return torch.from_numpy(np.concatenate([np.zeros([num_prefix, dim]), table])[None])
