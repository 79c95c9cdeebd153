"""A trained model that answers."""
import dataclasses
import os

from fovea._library import core  # before torch: it says which torch is wanted

import numpy
import torch

from fovea._arguments import overrides_of
from fovea.data._errors import Error
from fovea.data._values import described, path_of


@dataclasses.dataclass(frozen=True)
class Classes:
    """Of one input: scores [K] that sum to 1; of_slices [D, K], of a model of slices of volumes, else None."""
    scores: numpy.ndarray
    names: list
    of_slices: numpy.ndarray | None = None

    def top(self, count=5):
        """[(name, score)], best first; without names of classes their numbers."""
        best = numpy.argsort(-self.scores, kind="stable")[:count]
        return [(self.names[i] if self.names else int(i), float(self.scores[i])) for i in best]


@dataclasses.dataclass(frozen=True)
class Mask:
    """Of one input: a class for each of its pixels, [H, W] or [D, H, W] int32, and how many pixels each class has."""
    classes: numpy.ndarray
    voxels: list


@dataclasses.dataclass(frozen=True)
class Reconstruction:
    """Of one input: pictures [C, H, W] as the model sees them; in `seen` masked patches are NaN."""
    input: numpy.ndarray
    seen: numpy.ndarray
    image: numpy.ndarray
    loss: float
    num_masked: int
    num_patches: int


class Predictor:
    """target: a run folder, a weights file of a run, a recipe, timm's name with its tag, or hf-hub:ORG/NAME; as `fovea predict` takes it.

    model, weights, checkpoint, class_names, variables, device, dtype, int8_skip, int8_activations, int8_ranges, int8_rest: as the options of
    `fovea predict`; overrides: keys of the run's recipe. The scores are those of `fovea predict`, to the bit.

        predictor = fovea.Predictor("runs/flowers")
        for answer in predictor(["rose.jpg", "tulip.jpg"]):
            print(answer.top(3))

    Inputs are, all of a call of one kind: paths; bytes of image or NIfTI files; arrays of pixels, uint8 [H, W], [H, W, 1] or [H, W, 3];
    or float32 arrays or tensors [C, H, W] that are normalised as the model expects. One predictor may be asked from many threads.
    """

    def __init__(self, target="", *, model="", weights="", checkpoint="final", class_names="", variables=(), device="auto",
                 dtype="float32", int8_skip=(), int8_activations="", int8_ranges="", int8_rest="", **overrides):
        options = core.InferenceOptions()
        options.model, options.checkpoint, options.device, options.dtype = str(model), checkpoint, device, dtype
        options.weights = path_of(weights, "Predictor: weights")
        options.class_names = path_of(class_names, "Predictor: class_names")
        options.variables, options.int8_skip = list(variables), list(int8_skip)
        options.int8_activations, options.int8_ranges = int8_activations, path_of(int8_ranges, "Predictor: int8_ranges")
        options.int8_rest = int8_rest
        options.overrides = overrides_of(overrides)
        self._predictor = core.load_predictor(path_of(target, "Predictor: target"), options)
        self.kind = self._predictor.kind
        self.class_names = list(self._predictor.class_names)

    def __call__(self, inputs, errors="raise"):
        """A list of answers in the order of the inputs: Classes, Mask or Reconstruction, as `kind` says. An input that cannot be read
        raises its fovea.DataError, or with errors="return" has it in the place of its answer."""
        ask = {"classes": self._classes, "masks": self._masks, "reconstructions": self._reconstructions}.get(self.kind)
        if ask is None:
            raise Error(f"the model gives {self.kind}, not answers about inputs: call its samples(count, seed=...)")
        return _settled(ask(_inputs(inputs)), errors)

    def features(self, inputs, errors="raise"):
        """[F] float32 of each input: what a classifier would stand on."""
        return _settled(map(_numpy, self._predictor.features(_inputs(inputs))), errors)

    def attention(self, inputs, errors="raise", noise_level=0.5):
        """Of each input how much each head attends, from all tokens to all tokens: a list of [H, N, N], first block first."""
        answers = self._predictor.attention(_inputs(inputs), noise_level)
        return _settled([a if isinstance(a, Error) else [_numpy(block)[0] for block in a["blocks"]] for a in answers], errors)

    def samples(self, count=16, seed=0, steps=None, label=None):
        """Of a diffusion model: [count, C, H, W] float32 images from noise."""
        return self._predictor.samples(count, seed, steps, label).numpy()

    def _classes(self, inputs):
        return [a if isinstance(a, Error) else Classes(_numpy(a["scores"]), self.class_names, _numpy(a["of_slices"]))
                for a in self._predictor.classes(inputs)]

    def _masks(self, inputs):
        return [a if isinstance(a, Error) else Mask(_numpy(a["classes"]), a["voxels"]) for a in self._predictor.masks(inputs)]

    def _reconstructions(self, inputs):
        return [a if isinstance(a, Error) else Reconstruction(**{key: _numpy(value) for key, value in a.items()})
                for a in self._predictor.reconstructions(inputs, 0)]


def _numpy(value):
    return value.numpy() if isinstance(value, torch.Tensor) else value


def _settled(answers, errors):
    if errors not in ("raise", "return"):
        raise ValueError(f"errors: found {errors!r}; expected 'raise' or 'return'")
    answers = list(answers)
    if errors == "raise":
        for answer in answers:
            if isinstance(answer, Error):
                raise answer
    return answers


def _inputs(inputs):
    if isinstance(inputs, (str, bytes, os.PathLike, numpy.ndarray, torch.Tensor)):
        raise TypeError(f"found {described(inputs)}; expected a list of inputs: [{'x' if hasattr(inputs, 'shape') else repr(inputs)[:40]}]")
    return [_input(value, place) for place, value in enumerate(inputs)]


def _input(value, place):
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, numpy.ndarray) and value.dtype in (numpy.uint8, numpy.float32):
        value = torch.from_numpy(numpy.array(value, order="C"))  # a copy: who asks may change his meanwhile
    if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        return value.detach().cpu().contiguous()
    is_bytes = isinstance(value, torch.Tensor) and value.dtype == torch.uint8
    if is_bytes and (value.dim() == 2 or (value.dim() == 3 and value.shape[2] in (1, 3))) and value.numel() > 0:
        return value.reshape(*value.shape[:2], -1).cpu().contiguous()
    raise TypeError(f"input {place}: found {described(value)}; expected a path, the bytes of a file, pixels as uint8 [H, W], [H, W, 1] or "
                    "[H, W, 3], or float32 [C, H, W], normalised")
