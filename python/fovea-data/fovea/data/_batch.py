"""A batch as Python sees it: arrays over the loader's memory."""
import warnings
from collections.abc import Iterator
from typing import Any, Optional

from fovea.data import _loader

OUTPUTS = ("numpy", "torch", "jax", "dlpack")


def _array(name: str, doc: str) -> property:
    return property(lambda self: self._array(name), doc=doc)


class Batch:
    """What a `Loader` yields. B rows, C channels; sides H, W of images and D, H, W of volumes.

    Each array looks at the loader's own memory: nothing is copied, but for JAX. It stays valid as long as anyone keeps it, also when
    the loader is closed; the memory is used again once the batch and all of its arrays are gone. A batch keeps its arrays, so
    `del batch` gives them up too. They may be written to.

    `images, target = batch` is what most training loops want of it.
    """

    __slots__ = ("_memory", "_output", "_pin", "_arrays", "__weakref__")

    def __init__(self, memory: "_loader.Batch", output: str, pin: bool) -> None:
        self._memory, self._output, self._pin = memory, output, pin
        self._arrays: dict[str, Any] = {}

    images = _array("images", "[B, C, H, W] or [B, C, D, H, W], float32; with pixels='uint8' the bytes before `normalize`. None: "
                              "the images are packed")
    masks = _array("masks", "[B, H, W] or [B, D, H, W], int32: the class of each pixel, -1 for none. None: there are no masks")
    labels = _array("labels", "[B], int64: the class of each sample. None: the data set has no labels")
    targets = _array("targets", "[B, num_classes], float32: soft targets of images that are mixed. None: nothing is mixed")
    indices = _array("indices", "[B], int64: index of each sample in the data set; -1: a row that counts for nothing")
    rows = _array("rows", "[B], int64: row of each sample in the batch of all processes")
    weights = _array("weights", "[B], float32: 1, or 0 for a row that counts for nothing (a bad sample, the end of an evaluation)")
    tokens = _array("patches.tokens", "[B, C, L, p^d], float32: adaptive patches, L of them a sample. None: not asked for")
    patch_sizes = _array("patches.sizes", "[B, T, L], float32: longest side of each adaptive patch in pixels, of T trees")
    patch_centers = _array("patches.centers", "[B, T, L, d], float32: where each adaptive patch lies: x, y(, z)")
    patch_padding = _array("patches.padding", "[B, T, L], uint8: 1 where there is no patch")
    patch_labels = _array("patches.labels", "[B, L, p^d], int32: classes along the first tree. None: no masks")
    packed_patches = _array("image_patches.values", "[B, M, C * P * P], float32: images of mixed sizes in patches, row by row")
    packed_grids = _array("image_patches.grids", "[B, 2], int64: rows and columns of patches of each packed image")

    @property
    def target(self) -> Any:
        """What a model learns from the images: `targets` where images are mixed, else `masks`, else `labels`."""
        for name in ("targets", "masks", "labels"):
            found = self._array(name)
            if found is not None:
                return found
        return None

    @property
    def variables(self) -> list[str]:
        """Names of the channels; empty: they have none."""
        return self._memory.variables

    @property
    def mean(self) -> list[float]:
        """[C] of pixels='uint8': the model's input is (byte / 255 - mean) / std."""
        return self._memory.mean

    @property
    def std(self) -> list[float]:
        """[C] of pixels='uint8', see `mean`."""
        return self._memory.std

    @property
    def set(self) -> int:
        """Which of the sets of a mix the samples come from."""
        return self._memory.set

    @property
    def epoch(self) -> int:
        return self._memory.epoch

    @property
    def position(self) -> int:
        """Samples before this batch, over all epochs and processes."""
        return self._memory.position

    @property
    def global_size(self) -> int:
        """Rows of the whole batch, over all processes."""
        return self._memory.global_size

    def __len__(self) -> int:
        return len(self._memory)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.images, self.target))

    def __getitem__(self, name: str) -> Any:
        if not isinstance(name, str) or not isinstance(getattr(Batch, name, None), property):
            raise KeyError(f"{name!r}: expected the name of an attribute of fovea.data.Batch, such as 'images'")
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"Batch(epoch={self.epoch}, position={self.position}, rows={len(self)}, arrays={self._memory.names()})"

    def _array(self, name: str) -> Optional[Any]:
        if name not in self._arrays:
            view = self._memory.array(name, "numpy" if self._output == "jax" else self._output)
            self._arrays[name] = None if view is None else self._placed(view)
        return self._arrays[name]

    def _placed(self, view: Any) -> Any:
        """Where the user wants it, as a rule where it is."""
        if self._output == "jax":
            import jax
            # Not by DLPack: its arrays are bound to the CPU, and it copies too, where an address is no multiple of 64, as most are not.
            return jax.device_put(view)
        return view.pin_memory() if self._pin else view


def can_pin(output: str, pin_memory: bool) -> bool:
    """Whether tensors are pinned: asked for, of torch, and on a machine where that helps."""
    if not pin_memory:
        return False
    if output != "torch":
        raise ValueError(f"pin_memory=True with output={output!r}: only tensors of torch can be pinned; use output='torch'")
    import torch
    if torch.cuda.is_available():
        return True
    warnings.warn("pin_memory=True: torch finds no CUDA device here, so tensors are not pinned", stacklevel=4)
    return False
