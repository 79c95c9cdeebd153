#!/usr/bin/env python3
"""Elastic runs through random histories, and what has to hold of each.

    tools/elastic_run.py --histories 20     joins, leaves and deaths over two epochs of Fashion-MNIST: each sample once an epoch
    tools/elastic_run.py --kills 20         all processes of a run are killed at random moments, and it goes on: losses in the same bits

The short form of both is in tests/apps/elastic_run_test.py.
"""
import argparse
import contextlib
import math
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time

import elastic_processes
import elastic_samples
from elastic_processes import ElasticRun, Failure, check, check_same_bits

ROOT = pathlib.Path(__file__).resolve().parent.parent
FASHION_MNIST = ROOT / "recipes/fashion_mnist/quickstart.yaml"
IMAGES = 60000
EPOCHS, STEPS_OF_EPOCH = 24, 13  # of the runs that are killed
STEP = 0.02  # s, about
SMALL = ("model.depth=1", "model.embed_dim=32", "model.num_heads=1", "data.global_batch_size=128", "data.drop_last=false",
         "trainer.max_epochs=2", "parallel.slots=8", "device.threads=1", "checkpoint.every_steps=200", "log.every_steps=1",
         "log.tensorboard=false", "elastic.log_samples=true")


class History:
    """What happens to the workers of a run, drawn from a seed; one of them always stays."""

    def __init__(self, run, source):
        self.run, self.random, self.count, self.told, self.going = run, source, 0, [], set()
        self.join()

    def join(self):
        name = f"w{self.count}"
        self.count += 1
        self.run.worker(name)
        self.told.append(f"{name} joins")

    def staying(self):
        """Those that live and were not told to go, which takes a moment."""
        return sorted(name for name, process in self.run.workers.items() if process.poll() is None and name not in self.going)

    def happen(self):
        names = self.staying()
        what = self.random.choice(["join", "join", "kill", "leave", "remove"])
        if len(names) < 2 or what == "join":
            if len(names) < 4:
                self.join()
            return
        name = self.random.choice(names)
        self.told.append(f"{name}: {what}, step {self.run.step()}")
        if what == "kill":
            self.run.kill(name)
        elif what == "leave":
            self.run.workers[name].terminate()
            self.going.add(name)
        else:
            with contextlib.suppress(Failure):  # it is no member yet, or the run is at its end
                self.run.ask("scale", "--remove", name)
                self.going.add(name)

    def play(self, longest, things):
        """Until the run ends, or so many things have happened; at most `longest` seconds from one to the next."""
        while self.run.scheduler.poll() is None and self.staying() and len(self.told) < things:
            until = time.monotonic() + self.random.random() * longest
            while time.monotonic() < until and self.run.scheduler.poll() is None:
                time.sleep(0.02)
            if self.run.scheduler.poll() is None:
                self.happen()


def play_history(fovea, recipe, folder, seed, samples, longest, *overrides, things=None, etcd=None):
    """A run through a random history, to its end or, of so many things, to some step of the third epoch -> what happened."""
    with ElasticRun(fovea, recipe, folder, *overrides, etcd=etcd) as run:
        history = History(run, random.Random(seed))
        try:
            history.play(longest, things or math.inf)
            if things:
                elastic_processes.wait_for(lambda: max([line["epoch"] for line in run.metrics()], default=0) > 2.1, "the third epoch")
                run.ask("stop")
            code = run.scheduler.wait(elastic_processes.PATIENCE)
            check(code == (75 if things else 0), "the scheduler ended with", code, run.said("scheduler")[-2000:])
            elastic_samples.check_once(folder, samples, is_whole=not things)
            code, said = elastic_samples.audit(fovea, folder)
            check(code == 0 and said["ok"] and said["num_samples"] == samples, "audit:", code, said)
        except Failure as failure:
            raise Failure(f"{folder.name}: {failure}; history of seed {seed}: {'; '.join(history.told)}") from failure
        return history.told


def kill_all(fovea, recipe, folder, workers, moments, *overrides):
    """Kills scheduler and workers at each of the moments, steps after the first published one of a start; then lets it end."""
    def written():
        return os.stat(folder / "metrics.jsonl").st_mtime_ns if (folder / "metrics.jsonl").exists() else 0

    for moment in [*moments, None]:
        with ElasticRun(fovea, recipe, folder, *overrides) as run:
            run.worker(*[f"w{i}" for i in range(workers)])
            if moment is None:
                run.finish()
                return
            before = written()
            elastic_processes.wait_for(lambda: run.scheduler.poll() is not None or written() != before, "a line of metrics")
            if run.scheduler.poll() is None:
                run.wait_step(run.step() + int(moment))
                time.sleep(moment % 1 * STEP)  # leaving the block kills all that are left


def long_histories(arguments, folder):
    for seed in range(arguments.seed, arguments.seed + arguments.histories):
        start = time.monotonic()
        told = play_history(arguments.fovea, FASHION_MNIST, folder / f"history{seed}", seed, IMAGES, arguments.longest, *SMALL)
        print(f"history {seed}: {len(told)} things happened in {time.monotonic() - start:.0f} s, each sample once an epoch", flush=True)
        shutil.rmtree(folder / f"history{seed}")


def long_kills(arguments, folder):
    source = random.Random(arguments.seed)
    recipe = elastic_processes.write_recipe(folder, epochs=EPOCHS)
    elastic_processes.train(arguments.fovea, recipe, folder / "whole")
    left, runs = arguments.kills, 0
    while left > 0:
        run = folder / f"killed{runs}"
        moments = [source.random() * EPOCHS * STEPS_OF_EPOCH / 6 for _ in range(min(left, 5))]
        kill_all(arguments.fovea, recipe, run, source.randint(1, 3), moments)
        check_same_bits(folder / "whole", run)
        left -= len(moments)
        runs += 1
        print(f"{arguments.kills - left} times all were killed: losses and weights in the same bits", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=0)
    parser.add_argument("--longest", type=float, default=6.0, help="seconds from one thing of a history to the next, at most (default 6)")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=elastic_processes.PATIENCE, metavar="SECONDS",
                        help=f"longest wait for anything that has to come (default {elastic_processes.PATIENCE}); more where the "
                             "machine is busy")
    parser.add_argument("--fovea", default=ROOT / "build/release/apps/fovea/fovea", type=pathlib.Path)
    parser.add_argument("--keep", metavar="DIR", type=pathlib.Path, help="a folder for the runs that stays (default: a temporary one)")
    arguments = parser.parse_args()
    if arguments.histories + arguments.kills < 1:
        parser.error("give --histories or --kills")
    signal.signal(signal.SIGTERM, elastic_processes.end_all)
    elastic_processes.PATIENCE = arguments.patience
    folder = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="elastic_run_"))).resolve()
    try:
        long_histories(arguments, folder)
        if arguments.kills:
            long_kills(arguments, folder)
    except Failure as failure:
        raise SystemExit(f"elastic_run: {failure}; see {folder}") from failure
    if not arguments.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
