#!/usr/bin/env python3
"""Elastic runs: the same bits whoever took part, each sample once an epoch, and what is read from where once a member is lost.

usage: elastic_run_test.py FOVEA [SCENARIO ...]. What faults do: elastic_faults_test.py.
"""
import concurrent.futures
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import elastic_processes as processes  # noqa: E402
import elastic_run  # noqa: E402
import elastic_samples  # noqa: E402
from elastic_processes import ElasticRun, check  # noqa: E402

SAMPLES, EPOCHS, BATCH = 197, 8, processes.BATCH
ENDLESS = ("trainer.max_epochs=null", "trainer.max_steps=1000000", "trainer.eval_every_steps=100000", "schedule.warmup_steps=3")


class Bench:
    """What the scenarios share: the program, a folder, an etcd, and the run of one process, trained once."""

    def __init__(self, fovea, folder, etcd):
        self.fovea, self.folder, self.etcd = fovea, folder, etcd
        self.recipe = processes.write_recipe(folder, SAMPLES, EPOCHS)
        self.whole = folder / "whole"
        processes.train(fovea, self.recipe, self.whole)

    def run(self, name, *overrides):
        return ElasticRun(self.fovea, self.recipe, self.folder / name, *overrides, etcd=self.etcd)


def grow_and_shrink(run):
    """1, 2, 3, then 2 members, the last by a kill; -> generations."""
    run.worker("a", "b", "c")
    run.wait_step(3)
    for count in (2, 3):
        run.ask("scale", "--workers", count)
        processes.wait_for(lambda count=count: len(run.events()[-1]["workers"]) == count, f"{count} members")
    run.kill(run.events()[-1]["workers"][1])
    run.finish()
    return run.events()


def same_bits(bench):
    with bench.run("changing", "elastic.max_workers=1") as run:
        events = grow_and_shrink(run)
        sizes = [len(event["workers"]) for event in events]
        check(sizes[0] == 1 and 3 in sizes and len(sizes) >= 4, "generations", events)
        check(all(event["steps_lost"] == 0 for event in events), "steps were lost:", events)
    processes.check_same_bits(bench.whole, run.folder)
    elastic_samples.check_once(run.folder, SAMPLES)
    code, said = elastic_samples.audit(bench.fovea, run.folder)
    check(code == 0 and said["ok"] and len(said["epochs"]) == EPOCHS, "audit:", code, said)
    code, said = elastic_samples.audit(bench.fovea, elastic_samples.doctored(run.folder, bench.folder / "doctored"))
    check(code == 4 and not said["ok"], "audit of what was doctored:", code, said)
    apart = [epoch for epoch in said["epochs"] if (epoch["missing"], epoch["doubled"]) != (0, 0)]
    check([(epoch["missing"], epoch["doubled"]) for epoch in apart] == [(1, 1)], "audit of what was doctored:", said)
    done = subprocess.run([bench.fovea, "elastic", "simulate", run.folder, "--json"], capture_output=True, text=True, check=True)
    played = json.loads(done.stdout)
    check(played["is_done"] and played["run_hours"] > 0 and 1 <= played["changes"] < len(events), "played again:", played)


def same_bits_with_growing_batch(bench):
    schedule = bench.folder / "growing.yaml"
    schedule.write_text(f"[{{position: {2 * BATCH}, size: {2 * BATCH}}}, {{position: {SAMPLES}, size: {3 * BATCH}}}]\n")
    growing = (f"data.batch_schedule={schedule}", "trainer.max_epochs=16")
    processes.train(bench.fovea, bench.recipe, bench.folder / "whole_growing", *growing)
    with bench.run("growing", *growing, "elastic.max_workers=1") as run:
        grow_and_shrink(run)
        sizes = {line["global_batch"] for line in run.metrics() if line["split"] == "train"}
        check({BATCH, 2 * BATCH, 3 * BATCH} <= sizes, "global batches of", sizes)
    processes.check_same_bits(bench.folder / "whole_growing", run.folder)


ADAPTIVE = ("elastic.similarity_target=0.9", f"elastic.batch_size_upper_bound={3 * BATCH}", "elastic.batch_size_adjust_interval=8",
            "elastic.batch_size_adjust_rate=0.2")


def column(folder, *names):
    return [tuple(line[name] for name in names) for line in processes.lines_of(folder / "metrics.jsonl") if line["split"] == "train"]


def same_bits_with_adaptive_batch(bench):
    """Also of a run that is stopped, and goes on by itself in one process."""
    options = (*ADAPTIVE, "trainer.max_epochs=12")
    whole = bench.folder / "whole_adaptive"
    processes.train(bench.fovea, bench.recipe, whole, *options)
    names = ("step", "global_batch", "similarity", "lr")
    check(len({batch for _, batch, *_ in column(whole, *names)}) >= 5, "batches of", column(whole, *names))
    with bench.run("adaptive", *options, "elastic.max_workers=1") as run:
        grow_and_shrink(run)
    processes.check_same_bits(whole, run.folder)
    check(column(run.folder, *names) == column(whole, *names), "other batches:", column(run.folder, *names))
    elastic_samples.check_once(run.folder, SAMPLES)
    with bench.run("adaptive_stopped", *options) as run:
        run.worker("a", "b")
        run.wait_step(12)
        run.stop()
    processes.train(bench.fovea, bench.recipe, run.folder, *options)
    processes.check_same_bits(whole, run.folder)
    check(column(run.folder, *names) == column(whole, *names), "other batches:", column(run.folder, *names))


def adaptive_batch_takes_requests(bench):
    """Each counts once, for members that come behind it as well; then the batch goes on by itself, here back to the least."""
    asked = 2 * BATCH + 1
    with bench.run("asked", *ADAPTIVE, "elastic.similarity_target=0.01", "trainer.max_epochs=100000") as run:
        def batches():
            return [batch for batch, in column(run.folder, "global_batch")]
        run.worker("a")
        run.wait_step(3)
        run.ask("scale", "--global-batch", asked)
        processes.wait_for(lambda: asked in batches(), "the batch that was asked for")
        run.worker("b")
        event = run.wait_members("a", "b")
        processes.wait_for(lambda: run.step() > event["step"] + 8 and batches()[-1] != asked, "a batch of its own")
        run.stop()
    changes = [batch for batch, _ in itertools.groupby(batches())]
    check(changes[:2] == [BATCH, asked] and len(changes) > 2 and changes.count(asked) == 1, "batches of", changes)


def batch_is_asked_for_before_the_first_step(bench):
    """As after workers that all went before it: it counts from the second batch on."""
    schedule = bench.folder / "asked_early.yaml"
    schedule.write_text(f"[{{position: {BATCH}, size: {2 * BATCH}}}]\n")
    processes.train(bench.fovea, bench.recipe, bench.folder / "whole_asked_early", f"data.batch_schedule={schedule}")
    with bench.run("asked_early") as run:
        run.ask("scale", "--global-batch", 2 * BATCH)
        run.worker("a", "b")
        run.finish()
    processes.check_same_bits(bench.folder / "whole_asked_early", run.folder)


def goes_on_with_train(bench):
    with bench.run("stopped") as run:
        run.worker("a", "b")
        run.wait_step(5)
        run.stop()
        check(not (run.folder / "weights.safetensors").exists(), "a run that was stopped came to its end")
    processes.train(bench.fovea, bench.recipe, run.folder)
    processes.check_same_bits(bench.whole, run.folder)


def all_killed(bench):
    """With the etcd that the scheduler starts, which dies with it."""
    elastic_run.kill_all(bench.fovea, bench.recipe, bench.folder / "killed", 2, [8.5, 22])
    processes.check_same_bits(bench.whole, bench.folder / "killed")


def histories(bench):
    for seed in (1, 2):
        told = elastic_run.play_history(bench.fovea, bench.recipe, bench.folder / f"history{seed}", seed, SAMPLES, 1.0, *ENDLESS,
                                        "elastic.shares=speed", "elastic.shares_after=8",
                                        things=5, etcd=bench.etcd)
        check(len(told) == 5, "in a history happened", told)


def zero3_reads_what_is_lost(bench):
    with bench.run("zero3", "parallel.slots=0", "parallel.dp_shard=3", "elastic.dp_shard=auto", "elastic.min_workers=2",
                   "checkpoint.every_steps=10", *ENDLESS) as run:
        run.worker("a", "b", "c")
        run.wait_members("a", "b", "c")
        run.wait_step(25)
        run.kill("b")
        event = run.wait_members("a", "c")
        # Those since the last checkpoint, at most as many as lie between two; a save that was under way is dropped with b.
        check(event["bytes_from_checkpoint"] > 0 and event["steps_lost"] <= 2 * 10, "ZeRO 3, one killed:", event)
        run.wait_step(event["step"] + 10)
        run.stop()
    code, said = elastic_samples.audit(bench.fovea, run.folder)
    check(code == 0 and said["generations"] >= 2, "audit:", code, said)


def hsdp_reads_from_copies(bench):
    with bench.run("hsdp", "parallel.slots=0", "parallel.dp_shard=2", "elastic.min_workers=4", *ENDLESS) as run:
        run.worker(*"abcd")
        run.wait_members(*"abcd")
        run.ask("scale", "--workers", 4)
        run.wait_step(10)
        run.kill("b")
        run.worker("e")
        event = run.wait_members(*"acde")
        check(event["bytes_from_checkpoint"] == 0 and event["steps_lost"] == 0 and event["bytes_from_peers"] > 0,
              "two by two, one killed:", event)
        run.wait_step(event["step"] + 5)
        run.stop()


class HeldBack:
    """A process that runs for a third of the time."""

    def __init__(self, process):
        self.process, self.is_ending = process, threading.Event()
        self.thread = threading.Thread(target=self.hold)

    def hold(self):
        while not self.is_ending.is_set() and self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP)
            time.sleep(0.02)
            self.process.send_signal(signal.SIGCONT)
            time.sleep(0.01)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.is_ending.set()
        self.thread.join()


def shares_follow_speed(bench):
    """A member that is slow gets less, both numbers are told, and no bit changes."""
    longer = ("trainer.max_epochs=24", "schedule.warmup_steps=3")
    processes.train(bench.fovea, bench.recipe, bench.folder / "whole_longer", *longer)
    with bench.run("slow", *longer, "elastic.min_workers=2", "elastic.shares=speed", "elastic.shares_after=8") as run:
        run.worker("a", "b")
        run.wait_members("a", "b")
        with HeldBack(run.workers["b"]):
            changed = processes.wait_for(lambda: [event for event in run.events() if event["reason"] == "shares"], "other shares")[0]
        rows = dict(zip(changed["workers"], changed["rows"]))
        check(rows["a"] > rows["b"] > 0, "shares:", changed)
        why = changed["shares"][0]
        check(why["expected_ms"] < 0.9 * why["measured_ms"], "measured and expected:", changed)
        check({time["worker"] for time in changed["measured"]} == {"a", "b"}, "measured:", changed)
        run.finish()
    processes.check_same_bits(bench.folder / "whole_longer", run.folder)
    elastic_samples.check_once(run.folder, SAMPLES)


SCENARIOS = [same_bits, shares_follow_speed, histories, all_killed, same_bits_with_growing_batch, same_bits_with_adaptive_batch,
             adaptive_batch_takes_requests, batch_is_asked_for_before_the_first_step, goes_on_with_train, zero3_reads_what_is_lost,
             hsdp_reads_from_copies]


def play(scenarios, bench, jobs=3):
    """By turns in a few threads, for most of the time goes into waiting for leases; -> those that failed."""
    def one(scenario):
        start = time.monotonic()
        try:
            scenario(bench)
        except Exception:
            print(f"FAILED {scenario.__name__}\n{traceback.format_exc()}", flush=True)
            return scenario.__name__
        print(f"{scenario.__name__}: {time.monotonic() - start:.1f} s", flush=True)
        return None
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return [name for name in pool.map(one, scenarios) if name]


def memory():
    """A folder that no disk slows down: an etcd that waits for one is no fault that is meant."""
    return "/dev/shm" if os.path.isdir("/dev/shm") else None


def main(scenarios):
    signal.signal(signal.SIGTERM, processes.end_all)
    fovea, *wanted = sys.argv[1:]
    chosen = [scenario for scenario in scenarios if not wanted or scenario.__name__ in wanted]
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir=memory()) as etcd_folder:
        folder = pathlib.Path(name)
        with processes.Etcd(pathlib.Path(etcd_folder) / "etcd") as etcd:
            failed = play(chosen, Bench(pathlib.Path(fovea).resolve(), folder, etcd))
    if failed or not chosen:
        raise SystemExit(f"failed: {' '.join(failed) or 'no scenario'}")


if __name__ == "__main__":
    main(SCENARIOS)
