"""Adaptive patching against UCF-VIT's own Python, in one run on one core; trees are compared where both must agree.

    PYTHON compare.py --upstream DIR [--bench build/release/benchmarks/adaptive_patching/bench_adaptive_patching]
                      [--rounds 7] [--json FILE]

DIR is UCF-VIT's src/UCF_VIT/dataloaders (transform.py, quadtree.py, octree.py), outside this repository. Needs
opencv-python-headless, scipy, numpy, scikit-image (its photographs) and nilearn's wheel with nibabel (MNI152).
Rounds alternate between the two programs; every figure is the median over samples and rounds, in ms a sample. The
tree of UCF-VIT is the same, as are size and place of the leaves; colour tokens it mixes up, which costs it nothing.
"""

import argparse
import importlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import types

import cv2
import numpy as np
import skimage.data

ROOT = pathlib.Path(__file__).resolve().parents[2]
# name, side, dims, length, patch, smoothing
CASES = [("2-D 256x256x3, L 196", 256, 2, 196, 16, 3), ("2-D 256x256x3, L 196", 256, 2, 196, 16, 1),
         ("2-D 256x256x3, L 196", 256, 2, 196, 16, 5),
         ("2-D 1024x1024x3, L 1024", 1024, 2, 1024, 16, 3), ("2-D 1024x1024x3, L 1024", 1024, 2, 1024, 16, 1),
         ("3-D 64^3, L 512", 64, 3, 512, 4, 0), ("3-D 64^3, L 512", 64, 3, 512, 4, 1),
         ("3-D 64^3, L 512", 64, 3, 512, 4, 3), ("3-D 64^3, L 512", 64, 3, 512, 4, 5),
         ("3-D 128^3, L 729", 128, 3, 729, 4, 0), ("3-D 128^3, L 729", 128, 3, 729, 4, 1),
         ("3-D 128^3, L 729", 128, 3, 729, 4, 5)]


def load_upstream(folder):
    torch = types.ModuleType("torch")
    torch.nn = types.ModuleType("torch.nn")
    torch.nn.Module = type("Module", (), {"__call__": lambda self, *args: self.forward(*args)})
    plots = types.ModuleType("matplotlib")
    plots.pyplot = types.ModuleType("matplotlib.pyplot")
    sys.modules.update({"torch": torch, "torch.nn": torch.nn, "matplotlib": plots,
                        "matplotlib.pyplot": plots.pyplot})
    folder = pathlib.Path(folder).resolve()
    sys.path.insert(0, str(folder.parent))
    return importlib.import_module(f"{folder.name}.transform")


def photographs(side):
    names = ("astronaut", "coffee", "chelsea")
    return [cv2.resize(getattr(skimage.data, name)(), (side, side), interpolation=cv2.INTER_AREA) for name in names]


def brains(side):
    import nibabel
    import nilearn

    folder = pathlib.Path(nilearn.__file__).parent / "datasets" / "data"
    scan = np.asarray(nibabel.load(sorted(folder.glob("mni*t1*.nii.gz"))[0]).dataobj, np.float32)
    scan = (scan - scan.min()) / (scan.max() - scan.min())
    at = [(size - side) // 2 for size in scan.shape]
    if min(at) < 0:
        pads = [(max(0, side - size) // 2, max(0, side - size) - max(0, side - size) // 2) for size in scan.shape]
        scan = np.pad(scan, pads)
        at = [(size - side) // 2 for size in scan.shape]
    cube = scan[at[0]:at[0] + side, at[1]:at[1] + side, at[2]:at[2] + side]
    return [np.ascontiguousarray(cube.transpose(order)) for order in ((0, 1, 2), (2, 1, 0))]


def boxes_of(tree):
    rows = []
    for box, _ in tree.nodes:
        z = (box.z1, box.z2) if hasattr(box, "z1") else (0, 1)
        rows.append((z[0], box.y1, box.x1, z[1] - z[0], box.y2 - box.y1, box.x2 - box.x1))
    return rows


class Ours:
    def __init__(self, bench):
        self.process = subprocess.Popen([str(bench)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def measure(case, upstream, ours, rounds, folder):
    name, side, dims, length, patch, smoothing = case
    samples = photographs(side) if dims == 2 else brains(side)
    kind = upstream.Patchify if dims == 2 else upstream.Patchify_3D
    channels = 3 if dims == 2 else 1
    peer = kind([smoothing], length, [75, 76], patch, channels)
    results = {key: [] for key in ("upstream", "ours", "edges", "tree", "compatible")}
    same = total = 0
    for index, sample in enumerate(samples):
        path = folder / f"{dims}_{side}_{index}.raw"
        path.write_bytes(sample.tobytes())
        form = ("bytes", 3, 1, side, side) if dims == 2 else ("floats", 1, side, side, side)
        criterion = "canny" if dims == 2 else "canny_direction"
        request = (path, *form, length, patch, smoothing)
        fast_rounds = 40 if side <= 256 and dims == 2 else 6
        for _ in range(rounds):
            start = time.perf_counter()
            tree = peer(sample if dims == 2 else sample[..., None])[3]
            results["upstream"].append(1e3 * (time.perf_counter() - start))
            compatible = ours.ask(*request, fast_rounds, criterion, 1)
            results["compatible"].append(compatible["total_ms"])
            answer = ours.ask(*request, fast_rounds, criterion, 0)
            results["ours"].append(answer["total_ms"])
            results["edges"].append(answer["edges_ms"])
            results["tree"].append(answer["tree_ms"])
            if answer["allocations"] or compatible["allocations"]:
                sys.exit(f"{name}: {answer['allocations']} allocations in the steady state; expected none")
        ours_tree = np.fromfile(f"{path}.tree", np.int32).reshape(-1, 6)
        same += ours_tree.tolist() == [list(row) for row in boxes_of(tree)]
        total += 1
    medians = {key: statistics.median(values) for key, values in results.items()}
    low, high = min(results["ours"]), max(results["ours"])
    print(f"| {name} | {smoothing} | {medians['upstream']:.2f} | {medians['ours']:.3f} [{low:.3f}-{high:.3f}] | "
          f"{medians['edges']:.3f} | {medians['tree']:.3f} | {medians['compatible']:.3f} | "
          f"{medians['upstream'] / medians['ours']:.1f} | {same}/{total} |", flush=True)
    return {"case": name, "smoothing": smoothing, **medians, "same_trees": same, "samples": total}


def show_growth(ours, folder):
    """How the tree's cost grows: no peer, its list search is quadratic."""
    side = 16384
    tile = photographs(2048)[0][..., 0]
    path = folder / "huge.raw"
    np.tile(tile, (side // 2048, side // 2048)).tofile(path)
    print(f"\n| L on {side} x {side} | tree ms | ns a leaf and level (L log2 L) |\n|---|---|---|")
    for length in (1024, 4096, 16384, 65536):
        answer = ours.ask(path, "bytes", 1, 1, side, side, length, 2, 3, 3, "canny", 0)
        cost = 1e6 * answer["tree_ms"] / (length * np.log2(length))
        print(f"| {length} ({answer['leaves']} leaves) | {answer['tree_ms']:.3f} | {cost:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--bench", default=ROOT / "build/release/benchmarks/adaptive_patching/bench_adaptive_patching")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json")
    parser.add_argument("--cases", default="", help="those whose name begins so: \"3-D 128\"")
    parser.add_argument("--growth", action="store_true", help="also the tree's cost up to 65,536 leaves (2 GiB)")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    random.seed(0)
    upstream = load_upstream(args.upstream)
    ours = Ours(args.bench)
    print("| case | smoothing | UCF-VIT | Fovea [min-max] | edges | tree | Fovea, upstream_compatible | ratio | "
          "same trees |\n|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(case, upstream, ours, args.rounds, pathlib.Path(folder))
                for case in CASES if case[0].startswith(args.cases)]
        if args.growth:
            show_growth(ours, pathlib.Path(folder))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
