"""Data sets, losses and metrics written in Python, for recipes of fovea.train."""
import numbers

from fovea._library import core  # before torch: it says which torch is wanted

import numpy
import torch

from fovea.data._values import described


def register_dataset(name):
    """A decorator: `data.train: {format: own, dataset: NAME}` in recipes of fovea.train is from now on what the function, or class, gives.

    It is called without arguments, once for each section that names it, and gives an object with __len__ and __getitem__(index) ->
    (array, target), and either class_names, a list, or num_classes:

        array   uint8 [H, W], [H, W, 1] or [H, W, 3]: an image; or float32 [C, D, H, W]: a volume
        target  the number of a class; or an array of integers [H, W] or [D, H, W], a class for each pixel, -1: not labelled

    as arrays of NumPy or torch. A sample is a function of its index alone: transforms, order and the resume of a run are the recipe's.
    Threads of the loader call it, one at a time.
    """
    def register(make):
        core.register_dataset(name, lambda: OpenSet(name, make()))
        return make
    return register


def register_loss(name):
    """A decorator: `task: {loss: own, own_loss: NAME}` in recipes of fovea.train is from now on the function: (logits [B, C], labels) -> [B]
    float32, a loss for each sample, with torch's operations. labels: [B] int64, or soft targets [B, C] float32 where images are mixed.
    Evaluations report it as `loss`."""
    def register(function):
        core.register_loss(name, function)
        return function
    return register


def register_metric(name):
    """A decorator: `task: {own_metrics: [NAME]}` in recipes of fovea.train makes evaluations report the function under its name, beside the
    task's own metrics: (logits, labels) -> a number, of which more is better.

        classification  logits [N, C] float32, labels [N] int64 of all N samples, in the order of the data set
        segmentation    logits [1, C, H, W] or [1, C, D, H, W] float32, labels without C, int64, -1 where a pixel counts for nothing: of
                        one sample; the mean over samples is reported

    It stands in metrics.jsonl, reports and callbacks, and `checkpoint: {best_metric: NAME}` keeps the checkpoint with the most of it. NaN
    and infinity end the run: they are neither better nor worse than a number."""
    def register(function):
        core.register_metric(name, lambda logits, labels: _number(name, function(logits, labels)))
        return function
    return register


def _number(name, value):
    if isinstance(value, (torch.Tensor, numpy.ndarray)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"the metric '{name}' gives {described(value)}; expected one number")


class OpenSet:
    """What the library asks of a data set in Python."""

    def __init__(self, name, samples):
        self._name, self._samples = name, samples
        self.size = len(samples)
        if self.size == 0:
            raise ValueError(f"{name}: a data set of no samples; expected at least one")
        self.class_names = [str(text) for text in getattr(samples, "class_names", None) or ()]
        self.num_classes = int(getattr(samples, "num_classes", None) or len(self.class_names))
        if self.num_classes == 0:
            raise ValueError(f"{name}: found neither class_names nor num_classes; expected one of them")
        array, mask, _ = self.read(0, is_first=True)
        self.has_volumes, self.has_masks = array.dim() == 4, mask is not None

    def read(self, index, is_first=False):
        """(uint8 [H, W, C] or float32 [C, D, H, W], int32 mask or None, label or -1)."""
        sample = self._samples[index]
        if not isinstance(sample, (tuple, list)) or len(sample) != 2:
            raise TypeError(f"found {described(sample)}; expected (array, target)")
        array, target = self._array(sample[0]), self._target(sample[1])
        has_mask = isinstance(target, torch.Tensor)
        sides = list(array.shape[1:] if array.dim() == 4 else array.shape[:2])
        if has_mask and list(target.shape) != sides:
            raise ValueError(f"a mask of {list(target.shape)}; expected {sides}, a class for each pixel")
        if not is_first and ((array.dim() == 4) != self.has_volumes or has_mask != self.has_masks):
            raise TypeError(f"found {described(sample[0])} and {described(sample[1])}; expected what sample 0 is made of")
        return array, target if has_mask else None, -1 if has_mask else target

    def _array(self, value):
        array = _tensor(value)
        if array is not None and array.dtype == torch.uint8 and (array.dim() == 2 or (array.dim() == 3 and array.shape[2] in (1, 3))):
            return array.reshape(*array.shape[:2], -1).contiguous()
        if array is not None and array.dtype == torch.float32 and array.dim() == 4:
            return array.contiguous()
        raise TypeError(f"found {described(value)}; expected uint8 [H, W], [H, W, 1] or [H, W, 3], or float32 [C, D, H, W]")

    def _target(self, value):
        mask = _tensor(value)
        if mask is not None and mask.dim() > 0 and not mask.is_floating_point():
            return mask.to(torch.int32).contiguous()
        label = int(value)
        if label != value or not -1 <= label < self.num_classes:
            raise ValueError(f"label {value}; expected a number in [0, {self.num_classes})")
        return label


def _tensor(value):
    if isinstance(value, numpy.ndarray):
        return torch.from_numpy(numpy.require(value, requirements=["C", "W"]))
    return value.detach().cpu() if isinstance(value, torch.Tensor) else None
