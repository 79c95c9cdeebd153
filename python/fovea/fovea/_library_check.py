"""Whether the library in C++ goes with the torch that is installed, without loading either."""
import importlib.metadata

from fovea._built import TORCH_VERSION, __version__


def torch_fault():
    """Why the installed torch does not do; None: it does."""
    try:
        found = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is not None and found.split("+")[0] == TORCH_VERSION:
        return None
    there = f"torch {found} is installed" if found else "no torch is installed"
    return (f"fovea {__version__} was built with torch {TORCH_VERSION}, but {there}: the classes of libtorch differ from version "
            f"to version. Run `pip install torch=={TORCH_VERSION}`, or build fovea with the torch that you have: in a checkout, "
            "`FOVEA_TORCH_DIR=$(python -c 'import torch, os; print(os.path.dirname(torch.__file__))') pip install python/fovea-data .`")
