"""`Loader`, and the same by the name of a format."""
import atexit
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from fovea.data import _loader
from fovea.data._batch import OUTPUTS, Batch, can_pin
from fovea.data._errors import ConfigError, Error, MissingFileError
from fovea.data._values import hint_of, path_of, yaml_of

_DATA_KEYS = frozenset(_loader.data_keys())
_SAME_DATA = ("section", "num_samples", "global_batch_size", "seed")  # of a state and the loader that goes on from it

_open_loaders: "weakref.WeakSet[Loader]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Worker threads end before the interpreter and the C++ library do; so does a daemon thread's wait for a batch: where it came
    back later, Python would end the thread in the middle of C++ code, and that the process."""
    loaders = list(_open_loaders)
    for loader in loaders:
        loader.close()
    patience = time.monotonic() + 5
    while any(loader._waiting for loader in loaders) and time.monotonic() < patience:
        time.sleep(0.001)


def _one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")
    return value


class _Iteration:
    """The batches of what is left of one epoch: of which, the first call says, so that `set_epoch` may come before it. Any number
    of threads may take them."""

    def __init__(self, loader: "Loader") -> None:
        self._loader, self._lock = loader, threading.Lock()
        self.left: Optional[int] = None  # None: not begun

    def __iter__(self) -> "_Iteration":
        return self

    def __next__(self) -> Any:
        with self._lock:
            if self.left is None:
                self.left = self._loader._begin(self)
            elif self._loader._iteration is not self:
                raise RuntimeError("another iteration of this Loader has begun, which this one would take batches from; make a "
                                   "Loader for each loop")
            if self.left == 0:
                raise StopIteration
            self.left -= 1
        try:
            return self._loader._next()
        except BaseException:
            with self._lock:
                self.left += 1
            raise


class _Samples:
    """What loops ask of `DataLoader.dataset`."""

    def __init__(self, loader: "Loader") -> None:
        self.classes = loader.class_names
        self._count = loader.num_samples

    def __len__(self) -> int:
        return self._count


class Loader:
    """Batches of a recipe's data, or of a data set that keyword arguments describe.

    recipe: a recipe (.yaml) or the same as a dict; of it the `data` section is read, the model's `in_chans` and `img_size`, and
      `run.seed`. None: all is said by keywords, `format` and `path` first.
    section: "train", shuffled anew each epoch, without end; or "val", in order and to the last sample.
    rank, world_size: the rows of each batch that this process reads, of so many processes.
    batch_size: rows of this process; `global_batch_size`, as in recipes, are those of all.
    output: "numpy", "torch", "jax" or "dlpack": what arrays are. All but JAX's look at the loader's memory; those are on its default
      device, with its dtypes: int32 for int64, but with jax_enable_x64.
    pixels: "float32", or "uint8": the bytes before `normalize`, a quarter of the memory, for a device that normalises with
      `Batch.mean` and `Batch.std`.
    pin_memory: with output="torch", tensors are copied into pinned memory; without a CUDA device a warning says that they are not.
    yields: "batch", a `Batch`; "pair", the tuple (images, target); or a dict of names to those of `Batch`:
      {"image": "images", "label": "masks"} for MONAI's loops.
    seed: what order and augmentation are drawn from; default: run.seed of the recipe, or 42.
    in_chans, spatial_dims: channels, and 2 for images or 3 for volumes; default: the recipe's model's, or as the samples are.
    learned_classes: with section="val", the classes that the model knows, in label order; default: those of data.train.
    overrides: keys of the section (path="photos", transforms=[...]), of `data` (threads=4, mixup={...}), or with dots any key
      ({"data.train.path": "photos"}), with the names that recipes have.

    The samples of a batch depend on the data, the seed and the position alone: not on threads, processes or time. Iterating
    goes over one epoch, each time the next one; `set_epoch` chooses another. Batches are prepared by `threads` threads in C++,
    which need no GIL; waiting for one releases it.

    Raises ConfigError (a ValueError) that names every wrong key, MissingFileError (a FileNotFoundError), DataError (a
    RuntimeError) that names the file.
    """

    def __init__(self, recipe: Union[str, os.PathLike, Mapping[str, Any], None] = None, *, section: str = "train", rank: int = 0,
                 world_size: int = 1, batch_size: Optional[int] = None, output: str = "numpy", pixels: str = "float32",
                 pin_memory: bool = False, yields: Union[str, Mapping[str, str]] = "batch", seed: Optional[int] = None,
                 in_chans: Optional[int] = None, spatial_dims: Optional[int] = None,
                 learned_classes: Sequence[str] = (), **overrides: Any) -> None:
        self._section = _one_of("section", section, ("train", "val"))
        self._output = _one_of("output", output, OUTPUTS)
        _one_of("pixels", pixels, ("float32", "uint8"))
        self._yields = yields if isinstance(yields, Mapping) else _one_of("yields", yields, ("batch", "pair"))
        self._pin = can_pin(output, pin_memory)
        self._arguments = dict(recipe=recipe, section=section, rank=rank, world_size=world_size, batch_size=batch_size,
                               output=output, pixels=pixels, pin_memory=pin_memory, yields=yields, seed=seed, in_chans=in_chans,
                               spatial_dims=spatial_dims, learned_classes=list(learned_classes), **overrides)
        if batch_size is not None:
            if "global_batch_size" in overrides:
                raise ValueError("batch_size and global_batch_size: expected one of them; batch_size are rows of this process, "
                                 "global_batch_size those of all")
            overrides = {**overrides, "global_batch_size": batch_size * world_size}
        yaml, source = self._recipe_text(recipe)
        changes = [(self._full_key(key), yaml_of(value, key)) for key, value in overrides.items()]
        try:
            self._core = _loader.open_loader(yaml, source, changes, section, rank, world_size, seed, in_chans, spatial_dims,
                                             pixels == "uint8", list(learned_classes))
        except ConfigError as error:
            unknown = [key for key in overrides if f"{self._full_key(key)}: unknown key" in str(error)]
            hints = "".join(hint_of(key, [name for name in self._arguments if name not in overrides]) for key in unknown)
            if hints:
                raise ConfigError(f"{error}{hints}") from None
            raise
        self._epoch = 0  # that the next iteration goes over
        self._is_resumed = False  # or the rest of one
        self._iteration: Optional[_Iteration] = None  # that has begun last
        self._is_within = False  # it, so that the next batch is one of its, not the first of self._epoch
        self._waiting: set[int] = set()  # threads that are in a call without the GIL
        _open_loaders.add(self)

    @classmethod
    def _recipe_text(cls, recipe: Any) -> tuple[str, str]:
        if recipe is None:
            return "", f"fovea.data.{cls.__name__}"
        if isinstance(recipe, Mapping):
            return yaml_of(recipe, "recipe"), "recipe"
        path = path_of(recipe, "recipe")
        if not os.path.exists(path):
            raise MissingFileError(f"{path}: no such recipe; expected a YAML file, or a dict of what stands in one")
        with open(path, encoding="utf-8") as file:
            return file.read(), path

    def _full_key(self, key: str) -> str:
        if "." in key:
            return key
        return f"data.{key}" if key in _DATA_KEYS else f"data.{self._section}.{key}"

    def __iter__(self) -> Iterator[Any]:
        return _Iteration(self)

    def _begin(self, iteration: _Iteration) -> int:
        """How many batches it has."""
        core = self._core
        if not self._is_resumed:
            self._without_gil(core.seek, core.start_of_epoch(self._epoch))
        epoch = core.epoch_at(core.position)
        end = core.batches_before(core.start_of_epoch(epoch)) + core.batches_of_epoch(epoch)
        self._iteration, self._is_resumed, self._is_within, self._epoch = iteration, False, True, epoch + 1
        return end - core.batches_before(core.position)

    def _without_gil(self, call: Callable[..., Any], *arguments: Any) -> Any:
        thread = threading.get_ident()
        self._waiting.add(thread)
        try:
            return call(*arguments)
        finally:
            self._waiting.discard(thread)

    def _next(self) -> Any:
        batch = Batch(self._without_gil(self._core.next), self._output, self._pin)
        self._is_within = True
        if self._yields == "batch":
            return batch
        if self._yields == "pair":
            return tuple(batch)
        return {name: batch[attribute] for name, attribute in self._yields.items()}

    def __len__(self) -> int:
        """Batches of the epoch that is gone over, or comes next."""
        epoch = self._core.epoch_at(self._next_position())
        return self._core.batches_of_epoch(epoch)

    def _next_position(self) -> int:
        is_running = self._is_within and self._iteration is not None and self._iteration.left != 0
        return self._core.position if self._is_resumed or is_running else self._core.start_of_epoch(self._epoch)

    def set_epoch(self, epoch: int) -> None:
        """The next iteration goes over this epoch; over the rest of it, where that is what a state was loaded for."""
        if epoch < 0:
            raise ValueError(f"epoch={epoch}: expected 0 or more")
        if self._is_resumed and epoch == self._core.epoch_at(self._core.position):
            return
        self._is_resumed, self._is_within, self._epoch = False, False, epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the next batch is: of plain values, for torch.save, pickle or JSON. Every rank's is the same but for bad samples."""
        position = self._next_position()
        return {"position": position, "epoch": self._core.epoch_at(position),
                "bad_samples": [list(sample) for sample in self._core.bad_samples()], **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next iteration yields what came after the state was taken, bitwise, also in the middle of an epoch; on any number
        of processes and threads. Raises ValueError where the state is of other data, and changes nothing then."""
        own = self._identity()
        for key in (*_SAME_DATA, "position"):
            if key not in state:
                raise ConfigError(f"state: has no '{key}'; expected what state_dict() of a Loader gave")
            if key in own and state[key] != own[key]:
                raise ConfigError(f"state: {key} is {state[key]!r}, but this loader's is {own[key]!r}; go on with the loader "
                                          "that the state is of, or start anew without it")
        try:
            self._without_gil(self._core.seek, state["position"])
        except Error as error:
            if self._core.is_closed:
                raise
            raise ConfigError(f"state: {error}") from None
        self._core.restore_bad_samples([tuple(sample) for sample in state.get("bad_samples", ())])
        self._is_resumed, self._iteration = True, None

    def _identity(self) -> dict[str, Any]:
        return {"section": self._section, "num_samples": self._core.num_samples,
                "global_batch_size": self._core.global_batch_size, "seed": self._core.seed}

    def close(self) -> None:
        """Ends the worker threads. Batches that are kept stay valid; there are no more of them."""
        self._core.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_core"):  # else it was refused
            self._core.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """For processes that are spawned: a loader of its own, at the same place."""
        return _rebuild, (type(self), self._arguments, self.state_dict())

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} {self._section}: {self.num_samples} samples, global_batch_size {self.global_batch_size}, "
                f"position {self.position}>")

    @property
    def num_samples(self) -> int:
        """Of the data set; of tiles, all of them."""
        return self._core.num_samples

    @property
    def num_classes(self) -> int:
        return self._core.num_classes

    @property
    def class_names(self) -> list[str]:
        """In label order; empty where the format does not name them."""
        return self._core.class_names

    @property
    def has_masks(self) -> bool:
        return self._core.has_masks

    @property
    def global_batch_size(self) -> int:
        return self._core.global_batch_size

    @property
    def dataset(self) -> _Samples:
        """As a DataLoader's, for its length and `classes`."""
        return _Samples(self)

    @property
    def sampler(self) -> "Loader":
        """As a DataLoader's, for `loader.sampler.set_epoch(epoch)`."""
        return self

    @property
    def batch_sampler(self) -> None:
        """As a DataLoader's; there is none."""

    @property
    def position(self) -> int:
        """Samples before the next batch, over all epochs and processes."""
        return self._next_position()

    @property
    def bad_samples(self) -> list[tuple[int, str, str, int]]:
        """(index, file, reason, times) of the samples met so far that could not be read; see `bad_samples` in recipes."""
        return self._core.bad_samples()

    def describe(self, index: int) -> str:
        """The file, or the place in one, of a sample: of one in `Batch.indices`."""
        if not 0 <= index < self.num_samples:
            raise IndexError(f"index {index}: expected 0 to {self.num_samples - 1}")
        return self._core.describe(index)


def _rebuild(kind: type, arguments: dict[str, Any], state: dict[str, Any]) -> Loader:
    loader = kind.__new__(kind)
    Loader.__init__(loader, **arguments)
    loader.load_state_dict(state)
    return loader


class ImageFolder(Loader):
    """Images in one folder for each class: root/class/image.jpg. Keywords: those of `Loader` and of `format: folder`."""

    def __init__(self, root: Union[str, os.PathLike], **keywords: Any) -> None:
        super().__init__(format="folder", path=path_of(root, "root"), **keywords)


class WebDataset(Loader):
    """Samples in tars: "train-{000000..000146}.tar", a folder of tars, or a list of them. Keywords: those of `Loader` and of
    `format: wds`."""

    def __init__(self, urls: Union[str, os.PathLike, Sequence[Union[str, os.PathLike]]], **keywords: Any) -> None:
        paths = [urls] if isinstance(urls, (str, os.PathLike)) else urls
        super().__init__(format="wds", path=[path_of(path, "urls") for path in paths], **keywords)


class Packed(Loader):
    """A folder that `fovea data pack` wrote. Keywords: those of `Loader` and of `format: packed`."""

    def __init__(self, root: Union[str, os.PathLike], **keywords: Any) -> None:
        super().__init__(format="packed", path=path_of(root, "root"), **keywords)


class Volumes(Loader):
    """Scans, with masks or labels: images="*_t1.nii.gz", masks="*_seg.nii.gz". format: nifti, nrrd, metaimage, dicom, npy, raw or
    another that reads volumes. Keywords: those of `Loader` and of the format; `tiling` and `adaptive_patching` cut them."""

    def __init__(self, root: Union[str, os.PathLike], *, format: str = "nifti", **keywords: Any) -> None:
        super().__init__(format=format, path=path_of(root, "root"), **keywords)
