#!/usr/bin/env python3
"""Images per second that a Python loop gets from a folder of JPEGs: fovea.data against `fovea bench data` on the same recipe,
torchvision's v2 transforms in a DataLoader, DALI and SPDL, in one run.

Every pipeline decodes, crops at random (224), resizes (bilinear, with antialiasing), flips and normalises to float32 CHW in batches
of 64, with one thread (DataLoader: one worker) or more. First each resizes whole images without chance, and is held against
fovea.data: one that makes something else ends the benchmark. Each lives in a process of its own and measures a window when it is
told to; rounds go over all of them. With one thread every process, with all the helpers that it starts, is pinned to the same
one core; with more none is.

    python benchmarks/make_photos.py /tmp/photos
    cmake --build build/release --target fovea fovea_data_python
    python benchmarks/python_loader.py /tmp/photos [--rounds 9] [--threads 1 2] [--only fovea_python program] [--write]

Wants torch, torchvision and NumPy; DALI (nvidia-dali-cuda120, whose operators of the CPU need no driver) and SPDL (spdl-io, which loads
FFmpeg's libraries: Debian's ffmpeg) are measured where they can be imported.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import jpeg_loader
import provenance
from jpeg_loader import BATCH, MEAN, SIDE, STD
from timed_worker import TimedWorker, answer_windows

CASES = ("fovea_python", "program", "torchvision_v2", "dali", "spdl")
MOST_LEVELS = 2.5  # of 255: mean difference of images that are resized alike; bilinear filters differ among libraries
BARS = {"program": 0.95, "torchvision_v2": 2.5, "dali": 2.0, "spdl": 2.0}
RECIPE = """\
run: {{dir: {folder}/run}}
model: {{name: vit, preset: vit_tiny_patch16_224, num_classes: {classes}}}
data:
  train:
    format: folder
    path: {photos}
    transforms:
      - {{name: random_resized_crop, size: {side}, interpolation: bilinear}}
      - horizontal_flip
      - {{name: normalize, mean: {mean}, std: {std}}}
  global_batch_size: {batch}
trainer: {{max_epochs: 1}}
"""


# Each yields batches of images, [64, 3, 224, 224] float32. Not random: whole images, resized, in the order of their names.
def fovea_python(folder, threads, recipe, is_random=True):
    import fovea.data
    if is_random:
        loader = fovea.data.Loader(recipe, threads=threads, output="torch")
    else:
        loader = fovea.data.ImageFolder(folder, section="val", batch_size=BATCH, output="torch", transforms=[
            {"name": "resize", "size": [SIDE, SIDE], "interpolation": "bilinear"}, {"name": "normalize", "mean": MEAN, "std": STD}])
    while True:
        yield from (batch.images for batch in loader)


def torchvision_v2(folder, threads, recipe, is_random=True):
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, io
    from torchvision.transforms import v2
    sized = ([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()] if is_random else
             [v2.Resize((SIDE, SIDE), antialias=True)])
    steps = v2.Compose([*sized, v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])
    dataset = datasets.ImageFolder(folder, steps, loader=lambda path: io.decode_jpeg(io.read_file(path), io.ImageReadMode.RGB))
    return jpeg_loader.forever(DataLoader(dataset, BATCH, shuffle=is_random, drop_last=True, num_workers=threads,
                                          persistent_workers=True))


def dali(folder, threads, recipe, is_random=True):
    return jpeg_loader.dali(folder, "float32", threads, is_random)


RESIZE, TO_RGB = f"scale={SIDE}:{SIDE}:flags=bilinear", "format=pix_fmts=rgb24"  # filters of FFmpeg


def crop_filters(width, height):
    """RandomResizedCrop and a flip likewise."""
    for _ in range(10):
        area = random.uniform(0.08, 1) * width * height
        ratio = 2 ** random.uniform(-0.415, 0.415)  # 3/4 to 4/3
        w, h = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w = h = min(width, height)
    place = f"{w}:{h}:{random.randint(0, width - w)}:{random.randint(0, height - h)}"
    return [f"crop={place}:exact=1", RESIZE, *(["hflip"] if random.random() < 0.5 else [])]


def spdl(folder, threads, recipe, is_random=True):
    import numpy
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    paths = sorted(str(path) for path in pathlib.Path(folder).rglob("*.jpg"))
    scale = (1 / (255 * numpy.array(STD, numpy.float32))).reshape(1, 3, 1, 1)
    shift = (numpy.array(MEAN, numpy.float32) / numpy.array(STD, numpy.float32)).reshape(1, 3, 1, 1)

    def endless():
        while True:
            yield from random.sample(paths, len(paths)) if is_random else paths

    def decode(path):
        packets = spdl.io.demux_image(path)
        filters = crop_filters(packets.width, packets.height) if is_random else [RESIZE]
        return spdl.io.decode_packets(packets, filter_desc=",".join([*filters, TO_RGB]))

    def to_floats(frames):
        pixels = spdl.io.to_numpy(spdl.io.convert_frames(frames))  # [B, H, W, 3]
        return pixels.transpose(0, 3, 1, 2) * scale - shift

    decode(paths[0])  # ends here where FFmpeg's libraries are missing: a stage of the pipeline would try on
    pipeline = (PipelineBuilder().add_source(endless()).pipe(decode, concurrency=threads).aggregate(BATCH)
                .pipe(to_floats).add_sink(2).build(num_threads=threads))
    with pipeline.auto_stop():
        yield from pipeline


def work(name, folder, threads, recipe, whole_to):
    """Measures a window for each line of the standard input: how many batches. Or writes one of whole images to a file."""
    if name in ("fovea_python", "torchvision_v2"):
        import torch
        torch.set_num_threads(1)
    if whole_to:
        import numpy
        numpy.save(whole_to, next(iter(globals()[name](folder, threads, recipe, is_random=False))))
    else:
        answer_windows(iter(globals()[name](folder, threads, recipe)))


class Program:
    """`fovea bench data`, a process for each window."""

    def __init__(self, args, threads, recipe):
        self.command = [args.fovea, "bench", "data", recipe, "--threads", str(threads), "--rounds", "1", "--seconds", str(args.seconds),
                        "--batch-size", str(BATCH), "--json"]
        if threads == 1:
            self.command = ["taskset", "-c", str(args.core), *self.command]

    def answer(self):
        """It starts with each window."""

    def measure(self, amount):
        result = json.loads(subprocess.run(self.command, capture_output=True, text=True, check=True).stdout)
        images = result["images_per_second"]
        return {"images": images, "seconds": 1, "cpu_seconds": images * result["cpu_ms"] / 1e3}

    def close(self):
        pass


def worker_of(name, threads, args, recipe):
    """(command, environment)"""
    return ([sys.executable, __file__, args.folder, "--work", name, recipe, "--threads", str(threads)],
            {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [args.package, os.environ.get("PYTHONPATH")]))})


def start_worker(name, threads, args, recipe):
    if name == "program":
        return Program(args, threads, recipe)
    command, environment = worker_of(name, threads, args, recipe)
    return TimedWorker(command, core=args.core if threads == 1 else None, env=environment)


def whole_images(names, args, recipe):
    """{case: its batch of whole images}, of those that can run here; why others cannot is printed."""
    import numpy
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            command, environment = worker_of(name, 1, args, recipe)
            file = pathlib.Path(folder) / f"{name}.npy"
            done = subprocess.run([*command, "--whole-to", file], env=environment, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                found[name] = numpy.load(file)
            else:
                print(f"left out: {name}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}", flush=True)
    return found


def compared(names, args, recipe):
    """The cases that can run here, and a line on how far their images are from those of fovea.data."""
    import numpy
    images = whole_images([name for name in names if name != "program"], args, recipe)
    if "fovea_python" not in images:
        raise SystemExit("without fovea.data there is nothing to compare")
    levels = {}
    for name, batch in images.items():
        if batch.shape != (BATCH, 3, SIDE, SIDE) or batch.dtype != numpy.float32:
            raise SystemExit(f"{name} gives {batch.dtype} {batch.shape}; expected float32 ({BATCH}, 3, {SIDE}, {SIDE})")
        far = abs(batch - images["fovea_python"]) * 255 * numpy.array(STD).reshape(3, 1, 1)
        levels[name] = far.mean()
        if levels[name] > MOST_LEVELS:
            raise SystemExit(f"{name}: its images are {levels[name]:.1f} of 255 from those of fovea.data, at most {MOST_LEVELS} can "
                             "come from another filter: it does something else")
    line = ", ".join(f"{name} {level:.2f}" for name, level in levels.items() if name != "fovea_python")
    return [name for name in names if name in images or name == "program"], (
        f"Whole images resized to {SIDE} x {SIDE}: mean difference from those of fovea.data, of 255: {line}.")


def run_cases(names, threads, args, recipe):
    """{case: its windows}"""
    workers, windows = {}, {}
    for name in names:
        worker = start_worker(name, threads, args, recipe)
        try:
            worker.answer()
            workers[name] = worker
        except RuntimeError as error:
            print(f"left out: {name}: {error}", flush=True)
    for number in range(args.rounds):
        for name, worker in workers.items():
            windows.setdefault(name, []).append(worker.measure(args.batches))
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    for worker in workers.values():
        worker.close()
    return windows


def rates_of(windows):
    return [window["images"] / window["seconds"] for window in windows]


def table(windows, threads):
    own = rates_of(windows["fovea_python"])
    lines = [f"{threads} thread{'s' if threads > 1 else ''}:", "",
             "| pipeline | img/s, median | range | fovea.data / it, median of rounds | bar |", "| --- | --- | --- | --- | --- |"]
    for name, found in windows.items():
        rates = rates_of(found)
        ratio = statistics.median(mine / other for mine, other in zip(own, rates))
        bar = f"{BARS[name]}" if name in BARS and threads == 1 else ""
        lines.append(f"| {name} | {statistics.median(rates):.0f} | {min(rates):.0f} to {max(rates):.0f} | {ratio:.2f} | {bar} |")
    return "\n".join(lines)


def scaling(by_threads):
    if not {1, 2} <= by_threads.keys():
        return ""
    one, two = (statistics.median(rates_of(by_threads[threads]["fovea_python"])) for threads in (1, 2))
    return f"fovea.data with two threads over one: {two / one:.2f} (bar: 1.9)"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--fovea", default=str(provenance.ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--package", default=str(provenance.ROOT / "build/release/python"), help="folder that fovea.data is imported "
                        "from; empty: the installed wheel")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, default=10, help="of 64 images, in a window")
    parser.add_argument("--seconds", type=float, default=1.5, help="of a window of the program")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--core", type=int, default=0, help="for one thread")
    parser.add_argument("--only", nargs="+", choices=CASES, default=CASES, help="fovea_python is always measured")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--whole-to", help=argparse.SUPPRESS)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    if args.work:
        return work(args.work[0], args.folder, args.threads[0], args.work[1], args.whole_to)
    lines = ["# fovea.data in a Python loop against peers, CPU", "",
             f"{provenance.line()} `benchmarks/python_loader.py FOLDER --rounds {args.rounds} --batches {args.batches}`"]
    by_threads = {}
    with tempfile.TemporaryDirectory() as folder:
        recipe = pathlib.Path(folder) / "recipe.yaml"
        photos = pathlib.Path(args.folder).resolve()
        classes = sum(entry.is_dir() for entry in photos.iterdir())
        recipe.write_text(RECIPE.format(folder=folder, photos=photos, classes=classes, side=SIDE, mean=list(MEAN), std=list(STD),
                                        batch=BATCH))
        names = [name for name in CASES if name in args.only or name == "fovea_python"]
        names, line = compared(names, args, str(recipe))
        lines += ["", line]
        for threads in args.threads:
            by_threads[threads] = run_cases(names, threads, args, str(recipe))
            lines += ["", table(by_threads[threads], threads)]
    provenance.show(args, "python_loader", [*lines, "", scaling(by_threads)])
    return None


if __name__ == "__main__":
    main()
