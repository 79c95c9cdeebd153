"""The console script `fovea`: the program that is in the package, which takes the place of this process."""
import importlib.util
import os
import pathlib
import sys

from fovea._library_check import torch_fault

PROGRAM = pathlib.Path(__file__).resolve().parent / "bin" / "fovea"


def environment():
    """The program looks for libtorch in the folder `torch` beside `fovea`. Where it lies elsewhere, it is told."""
    env = dict(os.environ)
    env.setdefault("FOVEA_PYTHON", sys.executable)  # for the scripts that it starts
    libraries = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
    if libraries != PROGRAM.parent.parent.parent / "torch" / "lib":
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(libraries), env.get("LD_LIBRARY_PATH"))))
    return env


def main():
    if fault := torch_fault():
        sys.exit(f"error: {fault}")
    os.execve(PROGRAM, ["fovea", *sys.argv[1:]], environment())
