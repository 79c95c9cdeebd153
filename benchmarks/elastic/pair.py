#!/usr/bin/env python3
"""What shares by measured speed gain where one of two workers has a third of a core.

Two workers have a core each, and the second's is shared with two spinning processes (1:3). By turns a run whose shares stay equal
(elastic.shares=equal) and one that finds its own, from equal ones: after how many steps, what a step takes then, and both over each
other. Shares of 1:3 would take 0.50 of the time of equal ones; at most 0.62 is asked for, within 200 steps.

    python3 benchmarks/elastic/pair.py [--rounds 3] [--steps 40] [--write]
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tools")]
import provenance  # noqa: E402
import tiny_run  # noqa: E402
from elastic_processes import ElasticRun, lines_of, wait_for  # noqa: E402

RECIPE = ROOT / "recipes/fashion_mnist/quickstart.yaml"
ENDLESS = 10**6
SLOTS, SPINNERS, FIRST = 16, 2, 10
MOST_STEPS, BAR = 200, 0.62
HEADING = "## Shares by speed"
SMALL = ("model.depth=2", "model.embed_dim=96", "model.num_heads=3")


def overrides(args, *more):
    """An evaluation of a few images takes no time."""
    val = (f"data.val={{format: idx, images: {args.folder}/val-images, labels: {args.folder}/val-labels, num_classes: 10, "
           "transforms: [normalize]}")
    return [*SMALL, "device.threads=1", "device.dtype=float32", f"data.global_batch_size={args.batch_size}", "data.drop_last=false",
            f"parallel.slots={SLOTS}", "elastic.min_workers=2", "trainer.max_epochs=null", f"trainer.max_steps={ENDLESS}",
            f"trainer.eval_every_steps={ENDLESS}", "schedule.warmup_steps=1", "log.every_steps=1", "log.tensorboard=false",
            f"checkpoint.every_steps={ENDLESS}", val, *more]


def step_lines(folder):
    return [line for line in lines_of(folder / "metrics.jsonl") if line["split"] == "train"]


def ms_after(args, folder, first):
    """-> elapsed ms of a step, median over args.steps of them from step `first` on."""
    wait_for(lambda: step_lines(folder)[-1]["step"] >= first + args.steps, f"steps of {folder.name}", 600)
    return statistics.median(1000 * args.batch_size / line["images_per_second"] for line in step_lines(folder)
                             if first < line["step"] <= first + args.steps)


def play(args, folder, shares):
    """-> ms of a step, and of shares by speed the steps until they were found, the rows and the event."""
    with ElasticRun(args.fovea, RECIPE, folder, *overrides(args, f"elastic.shares={shares}")) as run:
        first, second = args.cores
        spinners = [subprocess.Popen(["taskset", "-c", str(second), sys.executable, "-c", "while True: pass"]) for _ in range(SPINNERS)]
        try:
            run.worker("a", prefix=["taskset", "-c", str(first)])
            run.worker("b", prefix=["taskset", "-c", str(second)])
            run.wait_members("a", "b")
            start = run.events()[-1]["step"]
            if shares == "equal":
                run.wait_step(start + FIRST)
                found = (ms_after(args, folder, start + FIRST), None)
            else:
                wait_for(lambda: run.events()[-1]["reason"] == "shares", "other shares", 600)
                event = run.events()[-1]
                ms = ms_after(args, folder, event["step"] + FIRST)
                found = (ms, {"steps": event["step"] - start, "rows": [row for _, row in sorted(zip(event["workers"], event["rows"]))], "pause_s": event["pause_s"], **event["shares"][0],
                              "changes": sum(other["reason"] == "shares" for other in run.events())})
            run.stop()
            return found
        finally:
            for process in spinners:
                process.kill()
                process.wait()


def report(found):
    yield from ["| round | equal, ms a step | by speed, ms a step | ratio | steps until found | rows | measured, expected ms | pause, s |",
                "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    ratios = []
    for number, (equal, (fitting, told)) in enumerate(found, 1):
        ratios.append(fitting / equal)
        yield (f"| {number} | {equal:.1f} | {fitting:.1f} | {ratios[-1]:.3f} | {told['steps']} | {' and '.join(map(str, told['rows']))} | "
               f"{told['measured_ms']:.0f}, {told['expected_ms']:.0f} | {told['pause_s']:.2f} |")
    steps = max(told["steps"] for _, (_, told) in found)
    yield from ["", f"Median ratio {statistics.median(ratios):.3f}, from {min(ratios):.3f} to {max(ratios):.3f} (bar {BAR}, ideal 0.50); "
                f"found after at most {steps} steps (bar {MOST_STEPS})."]


def write_section(text, heading=HEADING):
    """In place of the one that the kept results have; others stay. A heading of one # is that of the file, without its sections."""
    path = provenance.RESULTS / f"{provenance.kept_name('elastic')}.md"
    kept = "\n" + (path.read_text() if path.exists() else "# Elastic runs\n")
    before, _, rest = kept.partition(f"\n{heading}\n")
    _, mark, behind = rest.partition("\n## ")
    path.write_text(f"{before.rstrip()}\n\n{heading}\n\n{text}\n{mark}{behind}".lstrip("\n"))
    print(f"written: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--cores", type=int, nargs=2, default=sorted(os.sched_getaffinity(0))[:2], help="of the workers")
    parser.add_argument("--note", default="", help="a sentence for the end of the section")
    parser.add_argument("--write", action="store_true", help="write the section into benchmarks/results")
    args = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as name:
        args.folder = pathlib.Path(name)
        tiny_run.SIDE = 28
        tiny_run.write_images(args.folder, "val", 16, seed=2)
        for turn in range(args.rounds):
            sides = ["equal", "speed"] if turn % 2 == 0 else ["speed", "equal"]
            played = {side: play(args, args.folder / f"{turn}-{side}", side) for side in sides}
            found.append((played["equal"][0], played["speed"]))
            print(f"{turn}: {found[-1]}; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    text = "\n".join([
        f"{provenance.line()} benchmarks/elastic/pair.py: recipes/fashion_mnist/quickstart.yaml in float32 with {' '.join(SMALL)}, batches of "
        f"{args.batch_size}, parallel.slots={SLOTS}, two workers with a core each, the second's shared with {SPINNERS} spinning processes; {args.rounds} rounds "
        f"by turns, medians of {args.steps} steps. Load of the machine at the end: {os.getloadavg()[0]:.1f}.", "", *report(found),
        *([args.note] if args.note else [])])
    print(text)
    if args.write:
        write_section(text)


if __name__ == "__main__":
    main()
