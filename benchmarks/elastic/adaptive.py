#!/usr/bin/env python3
"""Time to an accuracy with a batch that follows the gradients, against the smallest batch throughout.

recipes/elastic/fashion_t2t.yaml on two workers, each with a core, the second's shared with two processes that spin. The accuracy is the one
that the smallest batch ends with; the ratio is the time to the first evaluation with as much over the time that the smallest batch
took. A large batch learns less from a sample and has more of them in the same time: its run is longer in epochs (--longer) and shorter by the
clock. Both sides run by turns for each seed. Times are the machine's clock, from the first published step on, for it is the spinning
that counts.

    python3 benchmarks/elastic/adaptive.py [--seeds 3] [--epochs 3] [--longer 1.33] [--override KEY=VALUE ...] [--write]
"""

import argparse
import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tools")]
import provenance  # noqa: E402
from elastic_processes import ElasticRun, check, lines_of  # noqa: E402

RECIPE = ROOT / "recipes/elastic/fashion_t2t.yaml"
BAR = 0.8
SPINNING = 2
SMALLEST, ADAPTIVE = "smallest batch", "adaptive batch"


@contextlib.contextmanager
def spinning(core):
    command = ["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as stack:
        for _ in range(SPINNING):
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.kill)
        yield


def follow(run):
    """Until the run has ended -> [(s since the first step, top-1)] of its evaluations, and its last batch."""
    start, found, batch = None, [], 0
    while run.scheduler.poll() is None or len(evaluations(run)) > len(found):
        if start is None and run.metrics():
            start = time.monotonic()
        now = evaluations(run)
        found += [(time.monotonic() - start, line["top1"]) for line in now[len(found):]]
        time.sleep(0.1)
    for line in run.metrics():
        batch = line.get("global_batch", batch)
    return found, int(batch)


def evaluations(run):
    return [line for line in lines_of(run.folder / "metrics.jsonl") if line["split"] == "val"]


def measure(args, side, seed):
    folder = args.folder / f"{side.replace(' ', '_')}-{seed}"
    epochs = args.epochs if side == SMALLEST else args.epochs * args.longer
    options = [f"elastic.enable_adjust={str(side == ADAPTIVE).lower()}", f"run.seed={seed}", f"trainer.max_epochs={epochs:g}",
               f"trainer.eval_every_epochs={args.eval_every}", "elastic.min_workers=2", "log.tensorboard=false", *args.override]
    cores = sorted(os.sched_getaffinity(0))
    check(len(cores) >= 2, "this needs two cores; there are", cores)
    with spinning(cores[1]), ElasticRun(args.fovea, RECIPE, folder, *options) as run:
        run.worker("fast", prefix=["taskset", "-c", str(cores[0])])
        run.worker("shared", prefix=["taskset", "-c", str(cores[1])])
        found, batch = follow(run)
        run.finish()
    print(f"seed {seed}, {side}: {found[-1][0]:.0f} s, top-1 {found[-1][1]:.2f}, last batch {batch}; load {os.getloadavg()[0]:.1f}",
          file=sys.stderr, flush=True)
    return found, batch


def row_of(args, seed):
    names = [SMALLEST, ADAPTIVE] if seed % 2 else [ADAPTIVE, SMALLEST]  # by turns
    runs = {name: measure(args, name, seed) for name in names}
    (fixed, _), (adaptive, batch) = runs[SMALLEST], runs[ADAPTIVE]
    whole, accuracy = fixed[-1]
    reached = next((seconds for seconds, top1 in adaptive if top1 >= accuracy), None)
    return {"seed": seed, "accuracy": accuracy, "fixed": whole, "reached": reached, "best": max(top1 for _, top1 in adaptive),
            "end": adaptive[-1][0], "batch": batch, "ratio": reached / whole if reached else None}


def table(rows):
    yield from ["| seed | top-1 of the smallest batch | its time, s | adaptive: time to as much, s | ratio | its end, s | its best top-1 | last batch |",
                "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for row in rows:
        reached, ratio = ("never", "") if row["reached"] is None else (f"{row['reached']:.0f}", f"{row['ratio']:.2f}")
        yield (f"| {row['seed']} | {row['accuracy']:.2f} | {row['fixed']:.0f} | {reached} | {ratio} | {row['end']:.0f} | "
               f"{row['best']:.2f} | {row['batch']} |")
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    missed = f"; {len(rows) - len(ratios)} of {len(rows)} never came to it" if len(ratios) < len(rows) else ""
    yield from ["", f"Ratio: median {statistics.median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}{missed}; at most {BAR} is due."
                if ratios else "No seed came to the accuracy."]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=3, help="of the smallest batch")
    parser.add_argument("--longer", type=float, default=5 / 3, help="epochs of the adaptive batch over these")
    parser.add_argument("--eval-every", type=float, default=0.5, help="epochs between two evaluations")
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        args.folder = pathlib.Path(name)
        rows = [row_of(args, seed) for seed in range(1, args.seeds + 1)]
    provenance.show(args, "elastic_adaptive", [
        "# A batch that follows the gradients", "",
        f"{provenance.line()} recipes/elastic/fashion_t2t.yaml, {args.epochs:g} epochs of the smallest batch and {args.epochs * args.longer:g} of the adaptive one, an evaluation each {args.eval_every:g}, two workers with a "
        f"core each, the second's shared with {SPINNING} processes that spin{'; ' + ' '.join(args.override) if args.override else ''}. Load of the "
        f"machine at the end: {os.getloadavg()[0]:.1f}.", "", *table(rows)])


if __name__ == "__main__":
    main()
