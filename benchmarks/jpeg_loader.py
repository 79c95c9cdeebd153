#!/usr/bin/env python3
"""Images per second from a folder of JPEGs: Fovea against torchvision, timm, DALI and ffcv, in one run.

Every pipeline decodes, crops at random (RandomResizedCrop, 224, bilinear with antialiasing; ffcv: INTER_AREA), flips, and
makes CHW batches of 64: float32 normalised, uint8, or rand-m9 (timm's rand-m9-mstd0.5-inc1, then float32). The raw ones
read stored pixels in place of JPEGs: Fovea's packed format and ffcv's. "fovea decode" is no loader: every file is decoded
whole into reused buffers, which is what the machine can do.

Each lives in a process of its own and measures a window when it is told to; rounds go over all of them, so that whatever
else the machine does hits all alike. With one thread every process, with all the helpers it starts, is pinned to the same
one core; with two none is. The clock on the wall is fair on a quiet machine only: where others want the core too, a
process with two busy threads gets twice the share of one with one. Processor time does not have that fault.

    python benchmarks/make_photos.py /tmp/photos
    cmake --build build/release --target bench_jpeg_loader
    benchmarks/jpeg_loader.py /tmp/photos [--rounds 9] [--threads 1 2] [--only fovea dali]
                              [--before PROGRAM] [--old-pillow DIR] [--write]

--before PROGRAM measures another build's bench_jpeg_loader too; with `--only fovea fovea_raw before before_raw` no peer.

Wants torch, torchvision and timm; DALI and ffcv are measured where they can be imported. timm's
rand-m9 needs a Pillow below 13: --old-pillow is a folder that `pip install --target` has put one in.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

import provenance
from timed_worker import TimedWorker, answer_windows

ROOT = provenance.ROOT
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH, SIDE = 64, 224
CASES = [("fovea", "decode"), ("fovea", "float32"), ("fovea", "uint8"), ("fovea", "rand-m9"), ("fovea_raw", "float32"),
         ("fovea_raw", "uint8"), ("torchvision_pil", "float32"), ("timm", "float32"), ("timm", "rand-m9"),
         ("torchvision_tensors", "float32"), ("torchvision_tensors", "uint8"), ("dali", "float32"), ("dali", "uint8"),
         ("ffcv", "float32"), ("ffcv", "uint8"), ("ffcv_raw", "float32"), ("ffcv_raw", "uint8")]
BEFORE = [(name.replace("fovea", "before"), output) for name, output in CASES if name.startswith("fovea")]
BARS = {("dali", "float32"): 2.5, ("ffcv", "float32"): 2.2, ("torchvision_tensors", "uint8"): 1.7, ("timm", "rand-m9"): 3.0,
        ("ffcv_raw", "float32"): 1.5, ("ffcv_raw", "uint8"): 1.5}


def forever(loader):
    while True:
        yield from (batch[0] for batch in loader)


def torchvision_pil(folder, output, threads):
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms
    steps = [transforms.RandomResizedCrop(SIDE), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
             transforms.Normalize(MEAN, STD)]
    dataset = datasets.ImageFolder(folder, transforms.Compose(steps))
    return forever(DataLoader(dataset, BATCH, shuffle=True, num_workers=threads if threads > 1 else 0))


def timm(folder, output, threads):
    from timm.data import create_dataset, create_loader
    dataset = create_dataset("", root=folder)
    policy = "rand-m9-mstd0.5-inc1" if output == "rand-m9" else None
    return forever(create_loader(dataset, (3, SIDE, SIDE), BATCH, is_training=True, use_prefetcher=False,
                                 color_jitter=None, auto_augment=policy, interpolation="bilinear", mean=MEAN, std=STD,
                                 num_workers=threads if threads > 1 else 0, persistent_workers=threads > 1))


def torchvision_tensors(folder, output, threads):
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, io
    from torchvision.transforms import v2
    steps = [v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()]
    if output == "float32":
        steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]

    def load(path):
        return io.decode_jpeg(io.read_file(path), io.ImageReadMode.RGB)

    dataset = datasets.ImageFolder(folder, v2.Compose(steps), loader=load)
    return forever(DataLoader(dataset, BATCH, shuffle=True, num_workers=threads if threads > 1 else 0))


def dali(folder, output, threads, is_random=True):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None)
    def pipeline():
        files, labels = fn.readers.file(file_root=folder, random_shuffle=is_random)
        images = fn.decoders.image_random_crop(files, device="cpu", random_area=[0.08, 1.0], random_aspect_ratio=[0.75, 4.0 / 3.0]
                                               ) if is_random else fn.decoders.image(files, device="cpu")
        images = fn.resize(images, size=[SIDE, SIDE], interp_type=types.INTERP_LINEAR, antialias=True)
        is_float = output == "float32"
        mean, std = ([255 * m for m in MEAN], [255 * s for s in STD]) if is_float else (0.0, 1.0)
        images = fn.crop_mirror_normalize(images, dtype=types.FLOAT if is_float else types.UINT8, mean=mean, std=std,
                                          output_layout="CHW", mirror=fn.random.coin_flip() if is_random else 0)
        return images, labels

    built = pipeline()
    built.build()
    while True:
        yield built.run()[0].as_array()


def ffcv(folder, output, threads, write_mode="jpg"):
    import numpy
    from ffcv.fields import IntField, RGBImageField
    from ffcv.fields.decoders import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
    from ffcv.writer import DatasetWriter
    from torchvision import datasets
    path = pathlib.Path(tempfile.gettempdir()) / f"jpeg_loader_{os.getpid()}.beton"
    fields = {"image": RGBImageField(write_mode=write_mode, jpeg_quality=90), "label": IntField()}
    DatasetWriter(str(path), fields, num_workers=1).from_indexed_dataset(datasets.ImageFolder(folder))
    steps = [RandomResizedCropRGBImageDecoder((SIDE, SIDE)), RandomHorizontalFlip()]
    if output == "float32":
        steps.append(NormalizeImage(255 * numpy.array(MEAN), 255 * numpy.array(STD), numpy.float32))
    loader = Loader(str(path), BATCH, num_workers=threads, order=OrderOption.RANDOM, os_cache=True,
                    pipelines={"image": steps + [ToTensor(), ToTorchImage(channels_last=False)], "label": None})
    while True:
        yield from (batch[0] for batch in loader)


def ffcv_raw(folder, output, threads):
    return ffcv(folder, output, threads, "raw")


def work(name, output, folder, threads):
    """Measures a window for each line of the standard input: how many batches."""
    if name not in ("dali",):
        import torch
        torch.set_num_threads(1)
    batches = iter({"torchvision_pil": torchvision_pil, "timm": timm, "torchvision_tensors": torchvision_tensors,
                    "dali": dali, "ffcv": ffcv, "ffcv_raw": ffcv_raw}[name](folder, output, threads))
    answer_windows(batches)


def start_worker(case, threads, args):
    name, output = case
    command = [sys.executable, __file__, args.folder, "--work", name, output, "--threads", str(threads)]
    if name.startswith(("fovea", "before")):
        program = args.before if name.startswith("before") else args.fovea
        command = [program, args.folder, output, str(threads), "raw" if name.endswith("_raw") else "files"]
    environment = dict(os.environ)
    if output == "rand-m9" and args.old_pillow:
        environment["PYTHONPATH"] = args.old_pillow
    return TimedWorker(command, core=args.core if threads == 1 else None, env=environment)


def run_cases(threads, args):
    """{case: (median images/s, median images per CPU second, least, most)}."""
    workers, results = {}, {}
    for case in CASES + (BEFORE if args.before else []):
        if args.only and case[0] not in args.only and " ".join(case) not in args.only:
            continue
        worker = start_worker(case, threads, args)
        try:
            worker.answer()
            workers[case] = worker
        except RuntimeError as error:
            print(f"left out: {case[0]} {case[1]}: {error}", flush=True)
    windows = {case: [] for case in workers}
    try:
        for number in range(args.rounds):
            measured = {case: worker.measure(args.batches) for case, worker in workers.items()}
            for case, window in measured.items():
                windows[case].append(window)
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:  # what is whole so far counts
        args.rounds = max(len(rounds) for rounds in windows.values())
    for case, worker in workers.items():
        worker.close()
        if not windows[case]:
            continue
        rates = [window["images"] / window["seconds"] for window in windows[case]]
        per_cpu = [window["images"] / max(window["cpu_seconds"], 1e-9) for window in windows[case]]
        results[case] = (statistics.median(rates), statistics.median(per_cpu), min(rates), max(rates))
    return results


def table(results, threads):
    lines = [f"{threads} thread{'s' if threads > 1 else ''}:", "",
             "| pipeline | output | img/s, median | range | img per CPU second | Fovea / it, wall | Fovea / it, CPU | bar |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for (name, output), (rate, per_cpu, least, most) in results.items():
        is_decoding = name == "fovea" and output == "decode"
        own = results.get(("fovea_raw" if name.endswith("_raw") else "fovea", "float32" if is_decoding else output))
        # The workers of a DataLoader are other processes, whose time is not counted here.
        is_counted = threads == 1 or not name.startswith(("torchvision", "timm"))
        wall = f"{own[0] / rate:.2f}" if own else "-"
        cpu = f"{own[1] / per_cpu:.2f}" if own and is_counted else "-"
        bar = f"{BARS[name, output]}" if (name, output) in BARS and threads == 1 else ""
        lines.append(f"| {name} | {output} | {rate:.0f} | {least:.0f} to {most:.0f} | "
                     f"{f'{per_cpu:.0f}' if is_counted else '-'} | {wall} | {cpu} | {bar} |")
    return "\n".join(lines)


def scaling(by_threads):
    """Fovea's two threads over its one."""
    one, two = by_threads.get(1), by_threads.get(2)
    if not one or not two:
        return []
    lines = ["Two threads over one (bar: 1.9):", "", "| pipeline | output | by wall clock | img per CPU second, two / one |",
             "| --- | --- | --- | --- |"]
    for case in two:
        if case in one and case[0].startswith("fovea"):
            lines.append(f"| {case[0]} | {case[1]} | {two[case][0] / one[case][0]:.2f} | {two[case][1] / one[case][1]:.2f} |")
    return ["\n".join(lines)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--fovea", default=str(ROOT / "build/release/benchmarks/bench_jpeg_loader"))
    parser.add_argument("--before", help="bench_jpeg_loader of another build, measured beside this one's")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batches", type=int, default=10, help="of 64 images, in a window")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--core", type=int, default=0, help="for one thread")
    parser.add_argument("--only", nargs="+", help='pipelines, or a pipeline and its output: fovea "dali float32"')
    parser.add_argument("--old-pillow", help="folder with a Pillow below 13, for timm's rand-m9")
    parser.add_argument("--write", action="store_true", help="write the tables into benchmarks/results")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        return work(*args.work, args.folder, args.threads[0])
    parts, by_threads = [], {}
    for threads in args.threads:
        by_threads[threads] = run_cases(threads, args)
        parts.append(table(by_threads[threads], threads))
        print(parts[-1], flush=True)
    parts += scaling(by_threads)
    print(*parts[len(args.threads):], sep="\n", flush=True)
    if args.write:
        head = (f"# JPEG loader: Fovea against peers, CPU\n\n{provenance.line()} "
                f"`benchmarks/jpeg_loader.py FOLDER --rounds {args.rounds} --batches {args.batches}`\n")
        provenance.keep("jpeg_loader", "\n\n".join([head.strip(), *parts]) + "\n")
    return None


if __name__ == "__main__":
    main()
