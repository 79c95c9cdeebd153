#!/usr/bin/env python3
"""How close `fovea elastic simulate RUN_DIR` comes to the time of the run that it plays again.

A run of workers that join, leave and are killed (at most two at a time, a core each), with an evaluation now and then; then the same run
simulated from the rates of all of it, and from those of its first half. At most 10 % off is asked for.

    python3 benchmarks/elastic/replay.py [--rounds 3] [--write]
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/elastic"), str(ROOT / "tools")]
import pair  # noqa: E402
import provenance  # noqa: E402
import tiny_run  # noqa: E402
from elastic_processes import ElasticRun  # noqa: E402

SLOTS, BATCH, STEPS = 8, 32, 700
BAR = 0.10
HEADING = "## A run played again"


def overrides(args):
    val = (f"data.val={{format: idx, images: {args.folder}/val-images, labels: {args.folder}/val-labels, num_classes: 10, "
           "transforms: [normalize]}")
    return [*pair.SMALL, "device.threads=1", "device.dtype=float32", f"data.global_batch_size={BATCH}", "data.drop_last=false", f"parallel.slots={SLOTS}",
            "trainer.max_epochs=null", f"trainer.max_steps={STEPS}", "trainer.eval_every_steps=100", "schedule.warmup_steps=1",
            "log.every_steps=1", "log.tensorboard=false", f"checkpoint.every_steps={STEPS}", val]


def play(args, folder):
    """1, 2, 1 (killed), 2, 1 (it leaves), 2 workers; -> events."""
    with ElasticRun(args.fovea, pair.RECIPE, folder, *overrides(args)) as run:
        one, other = (["taskset", "-c", str(core)] for core in args.cores)
        run.worker("a", prefix=one)
        run.wait_step(80)
        run.worker("b", prefix=other)
        run.wait_members("a", "b")
        run.wait_step(230)
        run.kill("b")
        run.wait_members("a")
        run.wait_step(run.events()[-1]["step"] + 70)
        run.worker("c", prefix=other)
        run.wait_members("a", "c")
        run.wait_step(run.events()[-1]["step"] + 150)
        run.workers["c"].send_signal(signal.SIGTERM)
        run.wait_members("a")
        run.workers.pop("c").wait()
        run.worker("d", prefix=other)
        run.wait_members("a", "d")
        run.finish()
        return run.events()


def simulated(args, folder, part):
    done = subprocess.run([args.fovea, "elastic", "simulate", str(folder), "--first-part", str(part), "--json"], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, nargs=2, default=sorted(os.sched_getaffinity(0))[:2], help="of the workers")
    parser.add_argument("--note", default="", help="a sentence for the end of the section")
    parser.add_argument("--write", action="store_true", help="write the section into benchmarks/results")
    args = parser.parse_args()
    rows = ["| round | the run, s | changes | simulated from all of it | from its first half |", "| --- | --- | --- | --- | --- |"]
    with tempfile.TemporaryDirectory() as name:
        args.folder = pathlib.Path(name)
        tiny_run.SIDE = 28
        tiny_run.write_images(args.folder, "val", 64, seed=2)
        for turn in range(args.rounds):
            folder = args.folder / f"run{turn}"
            events = play(args, folder)
            whole, half = (simulated(args, folder, part) for part in (1, 0.5))
            ratios = [one["hours"] / one["run_hours"] for one in (whole, half)]
            rows.append(f"| {turn + 1} | {3600 * whole['run_hours']:.1f} | {len(events) - 1} | {ratios[0]:.3f} | {ratios[1]:.3f} |")
            print(rows[-1], "load", os.getloadavg()[0], file=sys.stderr, flush=True)
    text = "\n".join([
        f"{provenance.line()} benchmarks/elastic/replay.py: recipes/fashion_mnist/quickstart.yaml in float32 with {' '.join(pair.SMALL)}, batches of {BATCH}, "
        f"parallel.slots={SLOTS}, {STEPS} steps, of workers that join, leave and are killed; simulated time over the run's own "
        f"(bar: {1 - BAR:.2f} to {1 + BAR:.2f}). Load of the machine at the end: {os.getloadavg()[0]:.1f}.", "", *rows,
        *(["", args.note] if args.note else [])])
    print(text)
    if args.write:
        pair.write_section(text, HEADING)


if __name__ == "__main__":
    main()
