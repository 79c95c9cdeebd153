"""Elastic runs on this machine: an etcd, a scheduler, workers that come, go and are killed, and what comes out of it.

For tools/elastic_run.py, tests/apps/elastic_run_test.py, tests/apps/elastic_faults_test.py and benchmarks/elastic.
"""
import contextlib
import ctypes
import json
import os
import subprocess
import time
import urllib.request

import tiny_run

PATIENCE = 120  # s, for anything that has to come
LEASE = 2
TICK = 0.01
BATCH, SLOTS, SIDE = 16, 8, 8  # two images a slot: a step of some milliseconds
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207


STARTED = []


def end_all(*_):
    """What was started does not outlive a script that is told to end."""
    for process in STARTED:
        if process.poll() is None:
            process.kill()
    os._exit(143)


class Failure(Exception):
    """What was expected did not come."""


def check(is_so, *what):
    if not is_so:
        raise Failure(" ".join(map(str, what)))


def wait_for(is_so, what, patience=None):
    """-> the first value of is_so() that counts as true."""
    limit = time.monotonic() + (patience or PATIENCE)
    while not (found := is_so()):
        check(time.monotonic() < limit, "waited in vain for", what)
        time.sleep(TICK)
    return found


def write_recipe(folder, samples=197, epochs=8):
    """A small training on images that are made up -> the recipe. The last batch of an epoch is a small one."""
    folder.mkdir(parents=True, exist_ok=True)
    tiny_run.write_images(folder, "train", samples, seed=1)
    tiny_run.write_images(folder, "test", 20, seed=2)
    text = tiny_run.RECIPE.format(folder=folder, side=SIDE, batch=BATCH, epochs=epochs, micro=2, every=20, ranks=1)
    text = text.replace("embed_dim: 64, depth: 3", "embed_dim: 32, depth: 2").replace("patch_size: 2", "patch_size: 4")
    text = text.replace("  threads: 1\n", "  threads: 1\n  drop_last: false\n")
    recipe = folder / "recipe.yaml"
    recipe.write_text(f"{text}parallel: {{slots: {SLOTS}}}\nelastic: {{log_samples: true, shares: equal}}\n")
    return recipe


def lines_of(path):
    """Whole lines of a file that others may be writing."""
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in path.read_text().split("\n")[:-1] if line]
    return []


class Etcd:
    """One that stays when it is killed: start() takes up its data again."""

    def __init__(self, folder, address="127.0.0.1"):
        self.folder, self.process = folder, None
        self.url = f"http://{address}:{tiny_run.free_port()}"
        self.peers = f"http://127.0.0.1:{tiny_run.free_port()}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            ["etcd", "--data-dir", str(self.folder), "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
             "--listen-peer-urls", self.peers, "--initial-advertise-peer-urls", self.peers,
             "--initial-cluster", f"default={self.peers}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        STARTED.append(self.process)
        wait_for(self.answers, f"etcd at {self.url}")

    def answers(self):
        check(self.process.poll() is None, "etcd ended with", self.process.returncode)
        with contextlib.suppress(OSError, ValueError), urllib.request.urlopen(f"{self.url}/health", timeout=2) as reply:
            return json.load(reply)["health"] == "true"
        return False

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class ElasticRun:
    """A scheduler and workers of one run; all of them end with this object."""

    def __init__(self, fovea, recipe, folder, *overrides, etcd=None):
        self.fovea, self.recipe, self.folder, self.overrides = str(fovea), recipe, folder, overrides
        self.etcd = etcd
        self.logs = folder.with_name(folder.name + "_logs")
        self.logs.mkdir(parents=True, exist_ok=True)
        self.workers, self.others = {}, []
        self.scheduler = self.place = None
        self.schedule()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is Failure:
            for log in sorted(self.logs.glob("*.txt")):
                print(f"{self.folder.name}: the end of what {log.stem} said:\n{log.read_text()[-1000:]}", flush=True)
        for process in [self.scheduler, *self.workers.values(), *self.others]:
            if process and process.poll() is None:
                process.kill()
                process.wait()
        self.scheduler = None

    def start(self, name, words, **options):
        """A process that writes into the folder of logs."""
        with (self.logs / f"{name}.txt").open("ab") as log:
            process = subprocess.Popen([str(word) for word in words], stderr=log, stdout=options.pop("stdout", log), **options)
        STARTED.append(process)
        return process

    def said(self, name):
        return (self.logs / f"{name}.txt").read_text()

    def start_scheduler(self, name, *overrides):
        etcd = ["--etcd", self.etcd.url] if self.etcd else []
        words = [self.fovea, "elastic", "scheduler", self.recipe, f"run.dir={self.folder}", *self.overrides, *overrides, *etcd, "--json"]
        return self.start(name, words, stdout=subprocess.PIPE, text=True)

    def schedule(self):
        self.scheduler = self.start_scheduler("scheduler")
        line = self.scheduler.stdout.readline()
        check(line, "the scheduler said nothing:", self.said("scheduler"))
        self.place = json.loads(line)

    def where(self):
        return ["--etcd", self.place["etcd"], "--run", self.place["run"]]

    def worker(self, *names, overrides=(), prefix=()):
        """Starts workers."""
        for name in names:
            self.workers[name] = self.start(name, [*prefix, self.fovea, "elastic", "worker", *self.where(), "--name", name, *overrides])

    def kill(self, *names):
        for name in names:
            self.workers[name].kill()
        for name in names:
            self.workers.pop(name).wait()

    def ask(self, *words):
        done = subprocess.run([self.fovea, "elastic", *map(str, words), *self.where()], capture_output=True, text=True, check=False)
        check(done.returncode == 0, *words, "ended with", done.returncode, done.stderr)
        return done.stdout

    def status(self):
        return json.loads(self.ask("status", "--json"))

    def metrics(self):
        return lines_of(self.folder / "metrics.jsonl")

    def events(self):
        return lines_of(self.folder / "events.jsonl")

    def step(self):
        """Steps that are published."""
        return max((line["step"] for line in self.metrics()), default=0)

    def logged(self):
        """Steps that some worker began, which etcd has no part in."""
        return sum(path.read_bytes().count(b"\n") for path in (self.folder / "samples").glob("*.jsonl"))

    def wait_step(self, step):
        def is_there():
            check(not self.scheduler or self.scheduler.poll() is None or self.step() >= step, "the run ended at step", self.step(),
                  "before", step, self.said("scheduler"))
            return self.step() >= step
        wait_for(is_there, f"step {step} of {self.folder.name}")

    def wait_members(self, *names):
        """Until a generation of just these has begun -> its event."""
        def is_there():
            events = self.events()
            return events and set(events[-1]["workers"]) == set(names) and events[-1]
        return wait_for(is_there, f"a generation of {' '.join(names)} in {self.folder.name}: {self.events()[-1:]}")

    def end(self):
        """Waits until all have ended -> exit codes of the scheduler and the workers."""
        for name, process in self.workers.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            check(process.returncode is not None, "worker", name, "does not end:", self.said(name)[-2000:])
        code = self.scheduler.wait(PATIENCE) if self.scheduler else None
        return code, {name: process.returncode for name, process in self.workers.items()}

    def stop(self):
        """Asks it to stop, and waits."""
        self.ask("stop")
        code, codes = self.end()
        check(code in (75, None) and not any(codes.values()), "a stop: exit codes", code, codes)

    def finish(self):
        """To its end, where everybody ends well."""
        code, codes = self.end()
        check(not code and not any(codes.values()), self.folder.name, "exit codes", code, codes, *map(self.said, codes))


@contextlib.contextmanager
def hung(pid):
    """The main thread of a process stands still, and its others go on."""
    libc = ctypes.CDLL(None, use_errno=True)

    def trace(request):
        if libc.ptrace(request, pid, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request} of {pid}")
    trace(PTRACE_SEIZE)
    trace(PTRACE_INTERRUPT)
    os.waitpid(pid, 0x40000000)  # __WALL: until it stands
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            trace(PTRACE_DETACH)


def train(fovea, recipe, folder, *overrides):
    words = [fovea, "train", recipe, f"run.dir={folder}", *overrides]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    check(done.returncode == 0, *words, "ended with", done.returncode, done.stdout, done.stderr)


def losses(folder):
    """Of every train line, in all digits."""
    return [(line["step"], repr(line["loss"])) for line in lines_of(folder / "metrics.jsonl") if line["split"] == "train" and "loss" in line]


def check_same_bits(expected, folder):
    """Losses of every step, and the tensors of the weights."""
    ours, theirs = losses(expected), losses(folder)
    check(len(ours) > 10, expected, "has few losses")
    if ours != theirs:
        apart = [pair for pair in zip(ours, theirs) if pair[0] != pair[1]]
        raise Failure(f"{folder.name}: {len(theirs)} losses, expected {len(ours)}; the first that differs: {apart[:1]}")
    ours, theirs = (tiny_run.tensors(path / "weights.safetensors") for path in (expected, folder))
    check(ours.keys() == theirs.keys() and len(ours) > 10, folder.name, "other tensors")
    apart = [name for name in ours if ours[name] != theirs[name]]
    check(not apart, folder.name, "weights differ:", apart[:5])
