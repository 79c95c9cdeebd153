"""The requirements of the wheel: the very torch that it is built with, whose C++ classes differ from version to version."""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def dynamic_metadata(field, settings):
    if field != "dependencies":
        raise ValueError(f"torch_requirement gives dependencies, not {field}")
    torch = pathlib.Path(os.environ.get("FOVEA_TORCH_DIR", ROOT / ".deps/torch"))
    header = torch / "include/torch/headeronly/version.h"
    if not header.exists():
        raise FileNotFoundError(f"{header}: no libtorch there; run ./quickstart, or set FOVEA_TORCH_DIR to the folder of a torch")
    numbers = re.findall(r"#define TORCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text())
    return [f"torch=={'.'.join(numbers)}", "numpy>=1.26"]
