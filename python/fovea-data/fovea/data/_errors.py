"""What Fovea raises, here and in the package `fovea`. Each message says what was found, what was expected and what to do."""


class Error(RuntimeError):
    """The base of all of them."""


class ConfigError(Error, ValueError):
    """A recipe, a keyword or a combination of settings that cannot work."""


class DataError(Error):
    """A file, or bytes, that are not what they should be."""


class MissingFileError(DataError, FileNotFoundError):
    """Nothing of that name is there."""


class CheckpointError(DataError):
    """Weights and checkpoints that are damaged, of another model, or cannot be written."""


class DivergedError(Error):
    """The loss or a gradient is not finite."""
