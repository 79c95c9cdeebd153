#!/usr/bin/env python3
"""What faults do to an elastic run: processes that are killed, stopped or hang, an etcd that goes, others who take a run's name.

usage: elastic_faults_test.py FOVEA [SCENARIO ...]. FOVEA_NETNS_TEST=1 as root: a network that is cut, too.
"""
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.request

import elastic_run_test as common
import tiny_run
from elastic_processes import LEASE, Etcd, check, check_same_bits, hung, wait_for
from elastic_run_test import ENDLESS, SAMPLES
from elastic_samples import check_once

SLACK = 10  # s that a machine may be late which does other things as well


def check_goes_on(run, *names):
    """Steps are published by these members."""
    event = run.wait_members(*names)
    run.wait_step(event["step"] + 3)
    return event


def check_end(run):
    """It stops, and nothing was lost or done twice."""
    run.stop()
    steps = [line["step"] for line in run.metrics() if line["split"] == "train"]
    check(steps == list(range(1, len(steps) + 1)), run.folder.name, "lines of metrics of the steps", steps)
    check_once(run.folder, SAMPLES, is_whole=False)


def worker_stopped(bench):
    with bench.run("stopped_worker", *ENDLESS) as run:
        run.worker("a", "b", "c")
        check_goes_on(run, "a", "b", "c")
        run.workers["b"].send_signal(signal.SIGSTOP)
        event = check_goes_on(run, "a", "c")
        check(event["reason"] == "death" and event["steps_lost"] == 0, "one was stopped:", event)
        run.workers["b"].send_signal(signal.SIGCONT)
        event = check_goes_on(run, "a", "b", "c")
        check(event["reason"] == "join" and event["workers"][-1] == "b", "it came back:", event)
        check("gives its state up" in run.said("b") and "registers anew" in run.said("b"), "what it says:", run.said("b"))
        check_end(run)


def worker_hung(bench):
    with bench.run("hung_worker", "elastic.hang_after=3", *ENDLESS) as run:
        run.worker("a", "b", "c")
        check_goes_on(run, "a", "b", "c")
        with hung(run.workers["b"].pid):
            event = check_goes_on(run, "a", "c")
            check(event["reason"] in ("death", "hang") and event["steps_lost"] == 0, "one hangs:", event)
        check_goes_on(run, "a", "b", "c")
        check_end(run)


def scheduler_killed(bench):
    with bench.run("no_scheduler", *ENDLESS) as run:
        run.worker("a", "b")
        generation = check_goes_on(run, "a", "b")["generation"]
        check(run.status()["leader"] == "scheduler", "the leader is", run.status()["leader"])
        run.scheduler.kill()
        run.scheduler.wait()
        run.scheduler = None
        start, before = time.monotonic(), run.logged()
        wait_for(lambda: run.status()["leader"] in ("a", "b"), "another leader", 2 * LEASE + SLACK)
        print(f"  another leader after {time.monotonic() - start:.1f} s")
        check(run.logged() > before, "nothing went on without a leader")
        check(run.events()[-1]["generation"] == generation, "a generation for nothing:", run.events()[-1])
        run.worker("c")
        check_goes_on(run, "a", "b", "c")
        check_end(run)


def etcd_away(bench):
    """For longer than a lease. Steps go on, nothing is published, and no lease ends."""
    with memory_folder() as folder, Etcd(folder / "etcd") as etcd:
        with common.ElasticRun(bench.fovea, bench.recipe, bench.folder / "etcd_away", *ENDLESS, etcd=etcd) as run:
            run.worker("a", "b")
            generation = check_goes_on(run, "a", "b")["generation"]
            etcd.kill()
            for _ in range(5):
                before = run.logged()
                time.sleep(1)
                check(run.logged() > before, "no step within a second without etcd")
            published = run.step()
            time.sleep(0.5)
            check(run.step() == published, "published without etcd: up to step", published, run.step())
            etcd.start()
            run.wait_step(published + 10)
            check(run.events()[-1]["generation"] == generation, "a generation for nothing:", run.events())
            check("registers anew" not in run.said("a") + run.said("b"), "a lease ended:", run.said("a"))
            check_end(run)


def etcd_gone(bench):
    with memory_folder() as folder, Etcd(folder / "etcd") as etcd:
        with common.ElasticRun(bench.fovea, bench.recipe, bench.folder / "etcd_gone", "elastic.patience=6", *ENDLESS, etcd=etcd) as run:
            run.worker("a", "b")
            run.wait_step(45)  # a checkpoint is there
            etcd.kill()
            time.sleep(1)
            latest = (run.folder / "checkpoints/latest").read_text()
            code, codes = run.end()
            check(code == 7 and set(codes.values()) == {7}, "exit codes", code, codes)
            check((run.folder / "checkpoints/latest").read_text() == latest, "something was published without etcd")
            check("elastic.patience" in run.said("a") and etcd.url in run.said("a"), "what it says:", run.said("a"))
            etcd.start()
            run.schedule()
            run.workers = {}
            run.worker("c")
            event = check_goes_on(run, "c")
            check(run.events()[-1]["step"] == int(latest.strip().removeprefix("step_")), "it goes on from", event, "not", latest)
            check_end(run)


def others_of_one_name(bench):
    """A second scheduler waits; other runs and other recipes are refused."""
    with bench.run("named", *ENDLESS) as run:
        run.worker("a")
        run.wait_step(3)
        second = run.start_scheduler("second")
        run.others.append(second)
        check(json.loads(second.stdout.readline()) == run.place, "the second scheduler is elsewhere")
        other_recipe = run.start_scheduler("other_recipe", "optim.lr=0.5")
        other_folder = run.start_scheduler("other_folder", f"run.dir={run.folder}_elsewhere", "--name", run.place["run"])
        run.others += [other_recipe, other_folder]
        for name, process in ("other_recipe", other_recipe), ("other_folder", other_folder):
            check(process.wait(60) == 3, name, process.returncode, run.said(name))
        check("optim.lr: 0.003 there, 0.5 here" in run.said("other_recipe"), "what differs:", run.said("other_recipe"))
        check("is another one" in run.said("other_folder") and "_elsewhere" in run.said("other_folder"), "what differs:", run.said("other_folder"))
        run.worker("b", overrides=["optim.lr=0.5"])
        run.worker("c", overrides=["run.dir=/nowhere"])
        run.worker("d", overrides=[f"data.train.images={bench.folder}/test-images", f"data.train.labels={bench.folder}/test-labels"])
        for name, what in ("b", "optim.lr"), ("c", "run.dir"), ("d", "data.train.images"):
            check(run.workers[name].wait(60) == 3 and what in run.said(name), name, run.workers[name].returncode, run.said(name))
            del run.workers[name]
        check(second.poll() is None and [member["worker"] for member in run.status()["members"]] == ["a"], "members", run.status())
        check_end(run)
        check(second.wait(60) == 75, "the second scheduler ended with", second.returncode)


def dies_while_members_change(bench):
    with bench.run("twice", *ENDLESS) as run:
        run.worker("a", "b", "c")
        check_goes_on(run, "a", "b", "c")
        generation = run.events()[-1]["generation"]
        run.worker("d")
        wait_for(lambda: run.status()["generation"] > generation, "the plan of a join")
        run.kill("b")  # on the way into the generation, or just behind it
        wait_for(lambda: run.status()["generation"] >= generation + 2, "the plan without b")
        run.kill("c")
        event = check_goes_on(run, "a", "d")
        check(event["steps_lost"] == 0, "steps were lost:", run.events())
        check_end(run)


def dies_within(bench, name, is_there, *overrides):
    """Whoever writes is killed as soon as it is there; the run ends with the same bits."""
    with bench.run(name, *overrides) as run:
        run.worker("a", "b", "c")
        wait_for(lambda: len(run.metrics()) > 5 and is_there(run), name)
        run.kill(run.events()[-1]["workers"][0])
        run.finish()
    check_same_bits(bench.whole, run.folder)
    check_once(run.folder, SAMPLES)
    return run


def dies_in_a_save(bench):
    def is_saving(run):
        with contextlib.suppress(FileNotFoundError):
            return any(name.startswith(".tmp-") for name in os.listdir(run.folder / "checkpoints"))
    dies_within(bench, "in_a_save", is_saving, "checkpoint.every_steps=2")


def dies_in_an_evaluation(bench):
    per_epoch = -(-SAMPLES // common.BATCH)
    run = dies_within(bench, "in_an_evaluation", lambda run: run.step() % per_epoch == 0 and run.metrics()[-1]["split"] == "train")
    evaluations = [[(line["step"], repr(line["loss"])) for line in common.processes.lines_of(folder / "metrics.jsonl")
                    if line["split"] == "val"] for folder in (bench.whole, run.folder)]
    check(evaluations[0] == evaluations[1], "evaluations", evaluations[1], "expected", evaluations[0])


def too_few_workers(bench):
    with bench.run("parked", "elastic.min_workers=2", *ENDLESS) as run:
        run.worker("a", "b")
        check_goes_on(run, "a", "b")
        run.kill("b")
        wait_for(lambda: run.status()["state"] == "parked", "the run to park")
        check("1" in run.status()["missing"] and run.status()["missing"], "missing:", run.status()["missing"])
        before = run.logged()
        time.sleep(0.5)
        check(run.logged() == before, "steps with too few workers")
        run.worker("c")
        event = check_goes_on(run, "a", "c")
        check(event["steps_lost"] == 0, "steps were lost:", event)
        check_end(run)


def call(etcd, path, **words):
    request = urllib.request.Request(f"{etcd.url}/v3/auth/{path}", data=json.dumps(words).encode(), method="POST")
    urllib.request.urlopen(request, timeout=20).read()


def etcd_that_is_none(bench):
    """No answer, and no permission."""
    with memory_folder() as folder, Etcd(folder / "etcd") as etcd:
        call(etcd, "user/add", name="root", password="secret")
        call(etcd, "role/add", name="root")
        call(etcd, "user/grant", user="root", role="root")
        call(etcd, "enable")
        nobody = f"http://127.0.0.1:{tiny_run.free_port()}"
        for url, what in (nobody, "start it"), (etcd.url, "FOVEA_ETCD_USER"):
            for words in ["scheduler", bench.recipe, f"run.dir={bench.folder}/none"], ["worker", "--run", "none"], ["status", "--run", "none"]:
                done = subprocess.run([bench.fovea, "elastic", *words, "--etcd", url], capture_output=True, text=True, check=False)
                check(done.returncode == 3 and url in done.stderr and what in done.stderr, words, url, done.returncode, done.stderr)


@contextlib.contextmanager
def second_network():
    """A network namespace, beside which this machine has the address -> its name, the link to it, and that address."""
    name, link, prefix = f"fovea{os.getpid()}", f"fv{os.getpid()}", f"10.231.{os.getpid() % 250}"

    def ip(*words):
        subprocess.run(["ip", *words], check=True)
    ip("netns", "add", name)
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("addr", "add", f"{prefix}.1/24", "dev", link)
        ip("link", "set", link, "up")
        for words in ["addr", "add", f"{prefix}.2/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]:
            ip("-n", name, *words)
        yield name, link, f"{prefix}.1"
    finally:
        ip("netns", "delete", name)


def network_cut(bench):
    """Between the worker that writes and the rest: the side with etcd goes on, and the other one comes back once it can."""
    with second_network() as (name, link, address), memory_folder() as folder, Etcd(folder / "etcd", address) as etcd:
        with common.ElasticRun(bench.fovea, bench.recipe, bench.folder / "network", *ENDLESS, etcd=etcd) as run:
            gloo = ["env", "FOVEA_COLLECTIVES=gloo"]  # or tensors would go past the network, through memory
            run.worker("far", prefix=["ip", "netns", "exec", name, *gloo])
            check_goes_on(run, "far")
            run.worker("near", prefix=gloo)
            check_goes_on(run, "far", "near")
            subprocess.run(["ip", "link", "set", link, "down"], check=True)
            event = check_goes_on(run, "near")
            check(event["steps_lost"] == 0, "steps were lost:", event)
            subprocess.run(["ip", "link", "set", link, "up"], check=True)
            check_goes_on(run, "near", "far")
            check_end(run)


@contextlib.contextmanager
def memory_folder():
    with tempfile.TemporaryDirectory(dir=common.memory()) as name:
        yield common.pathlib.Path(name)


SCENARIOS = [etcd_gone, etcd_away, worker_hung, worker_stopped, dies_while_members_change, too_few_workers, scheduler_killed,
             others_of_one_name, dies_in_a_save, dies_in_an_evaluation, etcd_that_is_none]
if os.environ.get("FOVEA_NETNS_TEST") == "1":
    SCENARIOS.append(network_cut)

if __name__ == "__main__":
    common.main(SCENARIOS)
