#!/usr/bin/env python3
"""Tiles per second out of volumes, shuffled: Fovea against MONAI and a loop of nibabel, in one run over the same files.

    cmake --build build/release --target bench_volume_tiles
    benchmarks/volume_tiles.py [--rounds 5] [--sides 192 320] [--threads 1 2] [--only fovea nibabel] [--write]

The volumes are int16, CT-like (a body in air, with noise), .nii.gz at gzip's level 6, and the same as .raw; tiles are 64^3 of
float32, batches of 4. Everybody goes through whole epochs:

- fovea: `nifti` with `cached_volumes: 4`, so that each volume is decoded in each epoch, as of a set that memory does not hold.
- fovea kept: the default, with which all of these few volumes stay decoded.
- fovea raw: the same volumes as .raw, of which each tile is read by itself.
- fovea packed: the same volumes by `data pack` with its usual chunks of 32^3, of which a tile costs those that it touches.
- nibabel loop: the plain loop, UCF-VIT's way: files in random order, each read once, its tiles one after the other, unshuffled.
- monai grid: GridPatchDataset over LoadImage, through a ShuffleBuffer of 64 tiles: MONAI's way to shuffle grid patches.
- monai by tile: any tile by its number, shuffled by the DataLoader; LoadImage reads the file for each.
- monai cached: all volumes decoded before in a CacheDataset, tiles by number: what memory for everything buys.

With two threads the peers have two worker processes of torch's DataLoader. Each lives in a process of its own and measures an
epoch when it is told to; rounds go over all of them, so that whatever else the machine does hits all alike; with one thread each
is pinned to one core. Wants torch, nibabel and monai.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import provenance
from timed_worker import TimedWorker

ROOT = provenance.ROOT
TILE, BATCH = 64, 4
COUNTS = {192: 16, 320: 8}  # volumes of each side
FEW, MANY = 50, 2000
CASES = ["fovea", "fovea kept", "fovea raw", "fovea packed", "nibabel loop", "monai grid", "monai by tile", "monai cached"]


def write_volumes(folder, side, count):
    """As NIfTI and raw, beside each other."""
    import nibabel
    import numpy
    axis = numpy.linspace(-1, 1, side, dtype=numpy.float32)
    radius = numpy.sqrt(axis[:, None, None] ** 2 + axis[None, :, None] ** 2 + axis[None, None, :] ** 2)
    for kind in ("nii", "raw"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        generator = numpy.random.default_rng(number)
        tissue = 40 + 60 * numpy.sin(7 * radius + number) + generator.normal(0, 12, radius.shape).astype(numpy.float32)
        values = numpy.where(radius < 0.9, tissue, -1000 + generator.integers(0, 4, radius.shape)).astype(numpy.int16)
        nibabel.save(nibabel.Nifti1Image(values, numpy.eye(4)), folder / "nii" / f"{number:02}.nii.gz")
        # The array of a NIfTI file is [x, y, z] with x fastest in the file; Fovea's raw has the last one fastest.
        (folder / "raw" / f"{number:02}.raw").write_bytes(numpy.ascontiguousarray(values).tobytes())


def boxes(side):
    steps = range(0, side - TILE + 1, TILE)
    return [(x, y, z) for x in steps for y in steps for z in steps]


def cut(volume, box):
    x, y, z = box
    return volume[..., x:x + TILE, y:y + TILE, z:z + TILE]


def loader_of(dataset, threads, **options):
    from torch.utils.data import DataLoader
    return DataLoader(dataset, BATCH, num_workers=threads if threads > 1 else 0, persistent_workers=threads > 1, **options)


def nibabel_loop(files, side, threads):
    import nibabel
    import numpy
    import torch
    from torch.utils.data import IterableDataset, get_worker_info

    class Loop(IterableDataset):
        epoch = 0

        def __iter__(self):
            order, worker = list(files), get_worker_info()
            random.Random(self.epoch).shuffle(order)
            self.epoch += 1
            for path in order[worker.id::worker.num_workers] if worker else order:
                volume = torch.from_numpy(numpy.asarray(nibabel.load(path).dataobj, dtype=numpy.float32))[None]
                for box in boxes(side):
                    yield cut(volume, box).clone()

    return loader_of(Loop(), threads)


def monai_load():
    import numpy
    from monai.transforms import LoadImage
    return LoadImage(image_only=True, ensure_channel_first=True, dtype=numpy.float32)


def monai_grid(files, side, threads):
    from monai.data import Dataset, GridPatchDataset, PatchIter, ShuffleBuffer
    order = list(files)
    random.Random(0).shuffle(order)
    patches = GridPatchDataset(Dataset(order, monai_load()), PatchIter((TILE,) * 3), with_coordinates=False)
    return loader_of(ShuffleBuffer(patches, buffer_size=64), threads)


def tiles_by_number(side, volume_of, count):
    from torch.utils.data import Dataset
    places = boxes(side)

    class Tiles(Dataset):
        def __len__(self):
            return count * len(places)

        def __getitem__(self, index):
            return cut(volume_of(index // len(places)), places[index % len(places)]).clone()

    return Tiles()


def monai_by_tile(files, side, threads):
    load = monai_load()
    return loader_of(tiles_by_number(side, lambda number: load(files[number]), len(files)), threads, shuffle=True)


def monai_cached(files, side, threads):
    from monai.data import CacheDataset
    volumes = CacheDataset(list(files), monai_load(), progress=False, num_workers=1)
    return loader_of(tiles_by_number(side, volumes.__getitem__, len(files)), threads, shuffle=True)


def cpu_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def work(name, folder, side, threads):
    """Measures for each line of the standard input: so many tiles."""
    import torch
    torch.set_num_threads(1)
    files = sorted(str(path) for path in pathlib.Path(folder, "nii").glob("*.nii.gz"))
    loader = {"nibabel loop": nibabel_loop, "monai grid": monai_grid, "monai by tile": monai_by_tile,
              "monai cached": monai_cached}[name](files, side, threads)

    def forever():
        while True:
            yield from loader

    batches = forever()
    next(batches)
    print("ready", flush=True)
    for line in sys.stdin:
        start, cpu_start, tiles = time.perf_counter(), cpu_seconds(), 0
        while tiles < int(line):
            batch = next(batches)
            assert batch.shape[2:] == (TILE,) * 3, batch.shape
            tiles += len(batch)
        print(json.dumps({"tiles": tiles, "seconds": time.perf_counter() - start, "cpu_seconds": cpu_seconds() - cpu_start,
                          "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


def start_worker(name, folder, side, threads, args):
    if name.startswith("fovea"):
        kind = {"fovea raw": "raw", "fovea packed": "packed"}.get(name, "nifti")
        command = [args.fovea, str(folder / ("raw" if kind == "raw" else "nii")), kind, str(side), str(threads),
                   "4" if name == "fovea" else "0"]
    else:
        command = [sys.executable, __file__, "--work", name, str(folder), "--sides", str(side), "--threads", str(threads)]
    return TimedWorker(command, core=args.core if threads == 1 else None)


def run_cases(folder, side, threads, args):
    """{case: windows}."""
    workers, windows = {}, {}
    for name in CASES:
        if args.only and name not in args.only:
            continue
        worker = start_worker(name, folder, side, threads, args)
        try:
            worker.answer()
            workers[name] = worker
        except RuntimeError as error:
            print(f"left out: {name}: {error}", flush=True)
    tiles = COUNTS[side] * len(boxes(side))
    for number in range(args.rounds):
        for name, worker in workers.items():
            # A file for each tile takes minutes an epoch: a part of one says as much.
            windows.setdefault(name, []).append(worker.measure(tiles // 32 if name == "monai by tile" else tiles))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    for worker in workers.values():
        worker.close()
    return windows


def table(windows, side, threads):
    rates = {name: [one["tiles"] / one["seconds"] for one in rounds] for name, rounds in windows.items()}
    medians = {name: statistics.median(values) for name, values in rates.items()}
    lines = [f"{COUNTS[side]} volumes of {side}^3, {threads} thread{'s' if threads > 1 else ''}:", "",
             "| pipeline | tiles/s, median | range | tiles per CPU second | fovea / it | fovea raw / it | peak memory, MiB |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name, values in rates.items():
        cpu = statistics.median(one["tiles"] / max(one["cpu_seconds"], 1e-9) for one in windows[name])
        is_counted = threads == 1 or name.startswith("fovea")  # a DataLoader's workers are other processes
        ratios = [f"{medians[own] / medians[name]:.2f}" if own in medians else "-" for own in ("fovea", "fovea raw")]
        peak = max(one["peak_bytes"] for one in windows[name]) / 2**20
        lines.append(f"| {name} | {medians[name]:.1f} | {min(values):.1f} to {max(values):.1f} | "
                     f"{f'{cpu:.1f}' if is_counted else '-'} | {ratios[0]} | {ratios[1]} | "
                     f"{f'{peak:.0f}' if is_counted else '-'} |")
    return "\n".join(lines)


def start_up(scratch, args):
    """Seconds until the tiles of 2,000 volumes of 64^3 are known: without and with the sizes kept beside them."""
    folder = scratch / "many"
    write_volumes(folder, 64, 1)
    one = (folder / "nii" / "00.nii.gz").read_bytes()
    for number in range(MANY):
        path = folder / "nii" / f"{number:04}.nii.gz"
        path.write_bytes(one)
        os.utime(path, (time.time() - 3600,) * 2)  # sizes of files that have just been written are not kept
    (folder / "nii" / "00.nii.gz").unlink()
    seconds = []
    for _ in range(2):
        command = [args.fovea, str(folder / "nii"), "nifti", "64", "1"]
        found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        seconds.append(float(found.stdout.split()[1]))
    return (f"Start-up: the tiles of {MANY:,} volumes .nii.gz of 64^3 ({len(one) / 1000:.0f} kB each) are known after "
            f"{seconds[0]:.3f} s the first time, {seconds[1]:.3f} s with the sizes that it has kept.")


def memory(scratch, args):
    """The peak over an epoch of 2,000 volumes against that over as many tiles of 50 of them, by what is kept decoded."""
    many, few = scratch / "many" / "nii", scratch / "few" / "nii"
    few.mkdir(parents=True)
    for path in sorted(many.glob("*.nii.gz"))[:FEW]:
        os.link(path, few / path.name)
    lines = [f"Peak memory of {MANY:,} tiles out of {FEW} and out of {MANY:,} volumes of 64^3 (1 MiB decoded), 2 threads:", "",
             f"| cached_volumes | {FEW} volumes, MiB | {MANY:,} volumes, MiB |", "| --- | --- | --- |"]
    for cached, words in (("4", "4"), ("0", "default")):
        peaks = []
        for folder in (few, many):
            worker = TimedWorker([args.fovea, str(folder), "nifti", "64", "2", cached])
            worker.answer()
            peaks.append(worker.measure(MANY)["peak_bytes"] / 2**20)
            worker.close()
        lines.append(f"| {words} | {peaks[0]:.1f} | {peaks[1]:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fovea", default=str(ROOT / "build/release/benchmarks/bench_volume_tiles"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sides", type=int, nargs="+", choices=sorted(COUNTS), default=[192, 320])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--core", type=int, default=0, help="for one thread")
    parser.add_argument("--only", nargs="+", choices=CASES)
    parser.add_argument("--write", action="store_true", help="write the tables into benchmarks/results")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], args.work[1], args.sides[0], args.threads[0])
    parts = []
    with tempfile.TemporaryDirectory() as scratch:
        for side in args.sides:
            folder = pathlib.Path(scratch, str(side))
            write_volumes(folder, side, COUNTS[side])
            for threads in args.threads:
                parts.append(table(run_cases(folder, side, threads, args), side, threads))
                print(parts[-1], flush=True)
        if not args.only or "fovea" in args.only:
            for measure in (start_up, memory):
                parts.append(measure(pathlib.Path(scratch), args))
                print(parts[-1], flush=True)
    if args.write:
        head = (f"# Tiles of volumes: Fovea against MONAI and a loop of nibabel, CPU\n\n{provenance.line()} "
                f"`benchmarks/volume_tiles.py --rounds {args.rounds}`. Tiles of 64^3, batches of 4, whole epochs.")
        provenance.keep("volume_tiles", "\n\n".join([head, *parts]) + "\n")
    return None


if __name__ == "__main__":
    main()
