"""`core`: the library in C++."""
from fovea._library_check import torch_fault

if _fault := torch_fault():
    raise ImportError(_fault)

import torch  # noqa: E402, F401: loads libtorch, and the libraries of CUDA that it names
from fovea import _core as core  # noqa: E402

core.start()
