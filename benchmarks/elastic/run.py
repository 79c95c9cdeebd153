#!/usr/bin/env python3
"""What elastic runs cost while nobody comes or goes, and how long a run stands still when somebody does.

Each row of the table is a ratio of two sides that were run by turns on this machine, or a time with its bar (docs/elastic.md):
- steps of two workers against `fovea train launch.processes=2`, and with parallel.slots=8 against the same micro-batches without;
- a worker that joins against stop, save, restart and resume of `fovea train`;
- from kill -9 or SIGSTOP of one of three workers until the next step is done.
Elapsed times are medians over steps, then over rounds; processor time is that of the processes that train, within the steps that count.

    python3 benchmarks/elastic/run.py [--rounds 5] [--steps 60] [--write]
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "benchmarks/elastic"), str(ROOT / "tools")]
import bench_model  # noqa: E402
import pair  # noqa: E402
import provenance  # noqa: E402
import tiny_run  # noqa: E402
from elastic_processes import LEASE, ElasticRun, lines_of, wait_for  # noqa: E402

RECIPE = ROOT / "recipes/fashion_mnist/quickstart.yaml"
FIRST = 10  # steps before those that count
ENDLESS = 10**6
HEADING = "# Elastic runs"
TICKS = os.sysconf("SC_CLK_TCK")


def overrides(args, *more):
    """An evaluation of a few images takes no time."""
    val = (f"data.val={{format: idx, images: {args.folder}/val-images, labels: {args.folder}/val-labels, num_classes: 10, "
           "transforms: [normalize]}")
    return ["device.threads=1", "device.dtype=float32", f"data.global_batch_size={args.batch_size}", "data.drop_last=false",
            "trainer.max_epochs=null", f"trainer.max_steps={ENDLESS}", f"trainer.eval_every_steps={ENDLESS}", "schedule.warmup_steps=1",
            "log.every_steps=1", "log.tensorboard=false", f"checkpoint.every_steps={ENDLESS}", val, *more]


def processor_time(pids):
    total = 0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def last_step(folder):
    return max((line["step"] for line in lines_of(folder / "metrics.jsonl")), default=0)


def start_training(args, folder, *more):
    words = [args.fovea, "train", RECIPE, f"run.dir={folder}", *overrides(args, *more)]
    return subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def over_steps(args, folder, pids):
    """-> elapsed and processor time of a step, in ms, over args.steps of them or a few more."""
    wait_for(lambda: last_step(folder) >= FIRST, "the first steps")
    first, spent = last_step(folder), processor_time(pids)
    wait_for(lambda: last_step(folder) >= first + args.steps, "steps", 600)
    last, spent = last_step(folder), processor_time(pids) - spent
    rates = [line["images_per_second"] for line in lines_of(folder / "metrics.jsonl")
             if first < line["step"] <= last and line["split"] == "train"]
    return 1000 * args.batch_size / statistics.median(rates), 1000 * spent / (last - first)


def train_side(*more):
    def measure(args, folder):
        process = start_training(args, folder, "launch.processes=2", *more)
        try:
            wait_for(lambda: last_step(folder) > 0, "a step")
            return over_steps(args, folder, tiny_run.children(process.pid))
        finally:
            process.terminate()
            process.wait()
    return measure


def elastic_side(*more):
    def measure(args, folder):
        with ElasticRun(args.fovea, RECIPE, folder, *overrides(args, "elastic.min_workers=2", *more)) as run:
            run.worker("a", "b")
            found = over_steps(args, folder, [process.pid for process in run.workers.values()])
            run.stop()
            return found
    return measure


MICRO = "trainer.micro_batch_size=16"
SIDES = {"two processes": train_side(), "two workers": elastic_side(),
         "two processes, micro-batches of 16": train_side(MICRO),
         "two processes, micro-batches of 16, slots=8": train_side(MICRO, "parallel.slots=8"),
         "two workers, micro-batches of 16, slots=8": elastic_side(MICRO, "parallel.slots=8")}
RATIOS = [("nobody joins or leaves", "two workers", "two processes", 1.02),
          ("slots=8", "two processes, micro-batches of 16, slots=8", "two processes, micro-batches of 16", 1.10),
          ("slots=8, elastic", "two workers, micro-batches of 16, slots=8", "two processes, micro-batches of 16", None)]


def join(args, folder):
    """-> s that a run of one worker stands still for a second one, which waits with its data open."""
    with ElasticRun(args.fovea, RECIPE, folder, *overrides(args, "parallel.slots=8", "elastic.max_workers=1")) as run:
        run.worker("a", "b")
        run.wait_step(FIRST)
        wait_for(lambda: run.status()["waiting"], "the second worker")
        run.ask("scale", "--workers", 2)
        event = wait_for(lambda: len(run.events()[-1]["workers"]) == 2 and run.events()[-1], "the join")
        run.stop()
    return event["pause_s"]


def restart(args, folder):
    """-> s from the last step of one process to the first of two, which go on from what it saved."""
    process = start_training(args, folder, "parallel.slots=8")
    wait_for(lambda: last_step(folder) >= FIRST, "the first steps")
    process.terminate()
    start = time.monotonic()
    process.wait()
    before = last_step(folder)
    process = start_training(args, folder, "parallel.slots=8", "launch.processes=2")
    try:
        wait_for(lambda: last_step(folder) > before, "a step after the restart")
        return time.monotonic() - start
    finally:
        process.terminate()
        process.wait()


def after_fault(sent):
    def measure(args, folder):
        """-> s until the survivors have done a step: who begins the second one of a generation has done the first."""
        with ElasticRun(args.fovea, RECIPE, folder, *overrides(args, "parallel.slots=8", "elastic.log_samples=true")) as run:
            run.worker("a", "b", "c")
            before = run.wait_members("a", "b", "c")["generation"]
            run.wait_step(FIRST)
            start = time.monotonic()
            run.workers["b"].send_signal(sent)

            def goes_on():
                lines = lines_of(folder / "samples/a.jsonl")
                return len({line["step"] for line in lines if line["generation"] > before}) > 1
            wait_for(goes_on, "the next step")
            taken = time.monotonic() - start
            run.kill("b")
            run.stop()
            return taken
    return measure


FAULTS = {"join": join, "restart": restart, "kill -9": after_fault(signal.SIGKILL), "SIGSTOP": after_fault(signal.SIGSTOP)}


def by_turns(args, chosen, rounds):
    found = {name: [] for name in chosen}
    for turn in range(rounds):
        for name in bench_model.in_turn(chosen, turn):
            folder = args.folder / f"{len(found[name])}-{name.replace(' ', '_').replace(',', '')}"
            found[name].append(chosen[name](args, folder))
            print(f"{turn}: {name}: {found[name][-1]}; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return found


def table_of_steps(found):
    medians = {name: [statistics.median(values) for values in zip(*rounds)] for name, rounds in found.items()}
    yield from ["| | step, ms | processor time, ms |", "| --- | --- | --- |"]
    yield from (f"| {name} | {elapsed:.1f} | {spent:.1f} |" for name, (elapsed, spent) in medians.items())
    yield from ["", "| ratio | elapsed | processor time | at most |", "| --- | --- | --- | --- |"]
    for name, one, other, bar in RATIOS:
        # Of each round by itself: what else the machine did changes from round to round.
        elapsed, spent = (statistics.median(a[i] / b[i] for a, b in zip(found[one], found[other])) for i in (0, 1))
        yield f"| {name} | {elapsed:.3f} | {spent:.3f} | {bar or ''} |"


def table_of_faults(found, step):
    medians = {name: statistics.median(rounds) for name, rounds in found.items()}
    yield from ["", "| | s, median | longest | at most |", "| --- | --- | --- | --- |"]
    bars = {"join": f"{medians['restart'] / 3:.2f} (a third of a restart)", "restart": "",
            "kill -9": f"{LEASE + 3 + step:.2f} (lease, 3 s and a step)", "SIGSTOP": f"{LEASE + 3 + step:.2f} (lease, 3 s and a step)"}
    yield from (f"| {name} | {medians[name]:.2f} | {max(found[name]):.2f} | {bars[name]} |" for name in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fovea", default=str(ROOT / "build/release/apps/fovea/fovea"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=128)
    provenance.add_report_arguments(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        args.folder = pathlib.Path(name)
        tiny_run.SIDE = 28
        tiny_run.write_images(args.folder, "val", 16, seed=2)
        steps = by_turns(args, SIDES, args.rounds)
        faults = by_turns(args, FAULTS, args.rounds)
    step = statistics.median(elapsed for elapsed, _ in steps["two processes"]) / 1000
    text = "\n".join([
        f"{provenance.line()} recipes/fashion_mnist/quickstart.yaml in float32, batches of {args.batch_size}, a thread a process, "
        f"{args.rounds} rounds by turns, {args.steps} steps each. Load of the machine at the end: {os.getloadavg()[0]:.1f}. Of etcd and the "
        "scheduler, which wait, no time is counted.", "",
        *table_of_steps(steps), *table_of_faults(faults, step), *(["", args.note] if args.note else [])])
    print(text)
    if args.write:
        pair.write_section(text, HEADING)


if __name__ == "__main__":
    main()
