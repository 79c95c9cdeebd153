"""Fovea's data loader for Python: batches of images, volumes, tiles and adaptive patches, prepared by threads in C++.

    import fovea.data

    loader = fovea.data.ImageFolder(
        "photos/train", batch_size=64, threads=4, output="torch",
        transforms=[{"name": "random_resized_crop", "size": 224}, "horizontal_flip", {"name": "normalize", "preset": "imagenet"}])
    for epoch in range(10):
        for images, labels in loader:  # float32 [64, 3, 224, 224], int64 [64]
            ...

Everything that the `data:` section of a recipe can say is a keyword argument of the same name; docs/reference.md lists them.
"""
from fovea.data import _processor

_processor.check()

from fovea.data._batch import Batch  # noqa: E402
from fovea.data._errors import ConfigError, DataError, Error, MissingFileError  # noqa: E402
from fovea.data._loader import __version__  # noqa: E402
from fovea.data._loaders import ImageFolder, Loader, Packed, Volumes, WebDataset  # noqa: E402

__all__ = ["Batch", "ConfigError", "DataError", "Error", "ImageFolder", "Loader", "MissingFileError", "Packed", "Volumes",
           "WebDataset", "__version__"]
