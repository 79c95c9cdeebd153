"""One start of the program: within limits that protect the machine, and what it took."""
import contextlib
import dataclasses
import os
import resource
import signal
import subprocess
import time

PATIENCE = 20  # s that a command may take
LONGEST = 60  # s, where the processors are so busy that it had none of them
MEMORY = 2 << 30  # bytes that may be resident
KILLED_AT = MEMORY + (MEMORY >> 1)
LARGEST_FILE = 2 << 30
ADDRESS_SPACE = 64 << 30
LONGEST_OUTPUT = 4 << 20


@dataclasses.dataclass
class Outcome:
    code: int  # -N: ended by signal N
    seconds: float
    peak_bytes: int
    stdout: bytes
    stderr: bytes
    is_hung: bool = False

    @property
    def text(self):
        return self.stdout + b"\n" + self.stderr


def resident_bytes(pid):
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return 0


def cpu_seconds(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0]
    except (OSError, ValueError, IndexError):
        return 0.0, "Z"


def is_hung(pid, seconds):
    """Over its time: at work or asleep. What waits for a processor on a busy machine gets more."""
    if seconds < PATIENCE:
        return False
    used, state = cpu_seconds(pid)
    return seconds > LONGEST or state in "SD" or used > PATIENCE / 2


def protect(pid, has_own_limits):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        if has_own_limits:
            return
        resource.prlimit(pid, resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def read_limited(path):
    with open(path, "rb") as file:
        return file.read(LONGEST_OUTPUT)


def kill_group(pid):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def wait(process, meanwhile):
    """-> (status, peak bytes, hung): watches its memory and its time."""
    started, peak, hung = time.monotonic(), 0, False
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return status, max(peak, usage.ru_maxrss * 1024), hung
        seconds = time.monotonic() - started
        peak = max(peak, resident_bytes(process.pid))
        hung = hung or is_hung(process.pid, seconds)
        if hung or peak > KILLED_AT:
            kill_group(process.pid)
        meanwhile(seconds)
        time.sleep(0.002 if seconds < 0.2 else 0.01)


def run(command, folder, logs, meanwhile=lambda seconds: None, has_own_limits=False):
    """Runs a command in a folder; its output goes to logs/stdout and logs/stderr."""
    started = time.monotonic()
    with open(logs / "stdout", "wb") as out, open(logs / "stderr", "wb") as errors:
        process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                   start_new_session=True)
        try:
            protect(process.pid, has_own_limits)
            status, peak, hung = wait(process, meanwhile)
        finally:
            kill_group(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Outcome(process.returncode, time.monotonic() - started, peak, read_limited(logs / "stdout"),
                   read_limited(logs / "stderr"), hung)
