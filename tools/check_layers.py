"""Holds the direction of dependencies: reads every #include and reports those that point up.

CMake links each folder with what it may use; headers could still be included past it, and this finds them.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Rooms of train/ that know no trainer: one library, tasks, in CMakeLists.txt.
TASKS = {"train/recipe", "train/tasks", "train/evaluate", "train/losses", "train/metrics", "train/diffusion"}
FILES = {"core", "files"}
MODELS = FILES | {"config", "data", "kernels", "nn", "weights", "models", "optim", "checkpoint", "parallel"}
# What a folder of fovea/, or a room in one, may include beside itself. The same arrows stand in CMakeLists.txt.
MAY_INCLUDE = {
    "core": set(),
    "files": {"core"},
    "config": {"core"},
    "html": {"core"},
    "net": {"core"},
    "hub": FILES | {"net"},
    "track": FILES | {"config", "net"},
    "data": FILES | {"config"},
    "data_tools": FILES | {"config", "data", "html"},
    "kernels": FILES,
    "nn": FILES | {"kernels"},
    "weights": FILES | {"nn"},
    "parallel": FILES | {"config", "kernels", "nn"},
    "models": FILES | {"config", "kernels", "nn", "weights"},  # and parallel/partitioning.h
    "onnx": FILES | {"kernels", "models", "nn"},
    "optim": FILES | {"config", "kernels"},
    "checkpoint": FILES | {"kernels", "nn"},
    "recipe_import": {"core", "config"},
    "elastic/control": FILES | {"net"},
    "elastic/solve": FILES | {"config"},
    **{room: MODELS | TASKS | {"html", "hub", "track", "elastic/solve"} for room in TASKS},
    "inference": MODELS | TASKS,
    "serve/protocol": FILES,
    "serve": MODELS | TASKS | {"inference", "serve/protocol", "serve/http"},
    "serve/grpc": FILES | {"serve/protocol", "serve/http"},  # and serve/http_message.h
    "serve/grpc_module": {"serve/grpc"},
    "train": MODELS | TASKS | {"html", "track", "elastic/solve"},
    "serve/http": FILES | {"serve/protocol"},  # and serve/http_message.h
    "elastic": MODELS | TASKS | {"train", "elastic/control", "elastic/solve"},
    "elastic/profile": MODELS | TASKS | {"train", "plan", "elastic/control", "elastic/solve"},
    "plan": {"core", "config", "data", "kernels", "nn", "models", "optim", "parallel", "train"} | TASKS,
}
TORCH_FREE = {"core", "files", "config", "html", "net", "hub", "track", "data", "data_tools", "recipe_import", "elastic/control",
              "elastic/solve", "serve/http", "serve/protocol", "serve/grpc", "serve/grpc_module"}
TORCH = re.compile(r"(ATen|c10|torch)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def folder_of(path):
    """Of core/error.h: core; of train/tasks/task.h, in a room with arrows of its own: train/tasks."""
    parts = path.split("/")
    room = "/".join(parts[:2])
    return room if room in MAY_INCLUDE else parts[0]


def faults_of(folder, header):
    """Why `header` may not be included from fovea/<folder> (None: an app or a test); empty: it may."""
    if header == "torch/torch.h":
        yield "include the narrow headers (ATen/core/Tensor.h, torch/nn/module.h, ...) instead"
    if folder in TORCH_FREE and TORCH.match(header):
        yield f"{folder}/ is free of libtorch"
    if folder == "models" and header == "fovea/parallel/partitioning.h":
        return  # plain data
    if folder in {"serve/http", "serve/grpc"} and header == "fovea/serve/http_message.h":
        return  # what it carries
    target = folder_of(header.removeprefix("fovea/")) if re.match(r"fovea/\w+/", header) else None
    if folder and target and target != folder and target not in MAY_INCLUDE[folder]:
        allowed = ", ".join(sorted(MAY_INCLUDE[folder])) or "nothing"
        yield f"{folder}/ may include {allowed}, not {target}/"
    if folder and header.startswith(("apps/", "tests/")):
        yield "the library may not include programs or tests"


def is_missing(header, includer):
    """Whether a header of this repository is included that is not there: what not every build compiles (fuzz targets,
    benchmarks, code for GPUs) would show it late."""
    return re.match(r"(fovea|apps|tests|benchmarks|python)/", header) and not (ROOT / header).exists() and \
        not (includer.parent / header).exists()


def main():
    count, faults = 0, []
    for top in ("fovea", "apps", "tests", "benchmarks", "examples", "python"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix not in {".h", ".cc", ".cu", ".cuh"}:
                continue
            count += 1
            where = path.relative_to(ROOT)
            folder = folder_of("/".join(where.parts[1:])) if top == "fovea" and len(where.parts) > 2 else None  # fovea.h: of all
            if folder and folder not in MAY_INCLUDE:
                faults.append(f"{where}:1: folder {folder}/ has no entry in {pathlib.Path(__file__).name}")
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                found = list(faults_of(folder, match[1]))
                if is_missing(match[1], path):
                    found.append("there is no such file")
                faults += [f"{where}:{number}: {match[1]}: {fault}" for fault in found]
    print("\n".join(faults + [f"layers: {count} files, {len(faults)} faults"]))
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
