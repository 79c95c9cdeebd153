"""A pipeline in a process of its own, measured window by window, so that rounds can alternate between pipelines.

It prints a line that begins with "ready", then for each number on its standard input, how much to do, one JSON object. Between
windows it is stopped with all of its helpers, which would else prepare what comes next in the windows of others.
"""

import atexit
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

WARM_UP = 6  # batches


class TimedWorker:
    def __init__(self, command, core=None, env=None):
        """core: the only one that it may use; None: all."""
        if core is not None:
            command = ["taskset", "-c", str(core), *command]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=env, start_new_session=True)
        atexit.register(self._signal, signal.SIGKILL)

    def _signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def answer(self):
        for line in self.process.stdout:
            if line.startswith(("ready", "{")):
                self._signal(signal.SIGSTOP)
                return line
        self.log.seek(0)
        raise RuntimeError(self.log.read().strip().splitlines()[-1:] or "no output")

    def measure(self, amount):
        self._signal(signal.SIGCONT)
        self.process.stdin.write(f"{amount}\n")
        self.process.stdin.flush()
        return json.loads(self.answer())

    def close(self):
        self.process.stdin.close()
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        self.process.wait()
        atexit.unregister(self._signal)


def _cpu_seconds():
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def answer_windows(batches):
    """In the process of a worker whose work is to take batches: measures a window for each line of the standard input, a number
    of them."""
    for _ in range(WARM_UP):
        next(batches)
    print("ready", flush=True)
    for line in sys.stdin:
        for _ in range(WARM_UP):
            next(batches)
        start, cpu_start, images = time.perf_counter(), _cpu_seconds(), 0
        for _ in range(int(line)):
            images += len(next(batches))
        seconds = time.perf_counter() - start
        print(json.dumps({"images": images, "seconds": seconds, "cpu_seconds": _cpu_seconds() - cpu_start}), flush=True)


def answer_seconds(ask):
    """In the process of a worker that does the same again and again: measures for as many seconds as each line of the standard
    input says. What it prints is as of bench_predictor."""
    ask()
    print("ready", flush=True)
    for line in sys.stdin:
        milliseconds, cpu_start, begin = [], _cpu_seconds(), time.perf_counter()
        last = begin
        while last - begin < float(line):
            ask()
            now = time.perf_counter()
            milliseconds.append(1e3 * (now - last))
            last = now
        print(json.dumps({"milliseconds": milliseconds, "cpu_seconds": _cpu_seconds() - cpu_start}), flush=True)


def predictor_worker(program, target, weights, threads, dtype, *inputs):
    """bench_predictor, ready, with what the program has in its environment."""
    command = [str(word) for word in (program, target, weights, threads, dtype, *inputs)]
    predictor = TimedWorker(command, env={"GOMP_SPINCOUNT": "1000", **os.environ})
    predictor.answer()
    return predictor
