"""The requirements of the wheel fovea: the very torch that it is built with, whose C++ classes differ from version to version, and the
fovea-data of the same sources, which has what both raise and how both read arguments."""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def dynamic_metadata(field, settings):
    if field != "dependencies":
        raise ValueError(f"wheel_requirements gives dependencies, not {field}")
    torch = pathlib.Path(os.environ.get("FOVEA_TORCH_DIR", ROOT / ".deps/torch"))
    header = torch / "include/torch/headeronly/version.h"
    if not header.exists():
        raise FileNotFoundError(f"{header}: no libtorch there; run ./quickstart, or set FOVEA_TORCH_DIR to the folder of a torch")
    numbers = re.findall(r"#define TORCH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header.read_text())
    version = re.search(r"project\(fovea VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    return [f"torch=={'.'.join(numbers)}", f"fovea-data=={version}", "numpy>=1.26"]
