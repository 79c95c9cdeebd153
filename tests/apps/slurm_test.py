#!/usr/bin/env python3
"""A run of two ranks through a real Slurm on this machine: a rank is killed, the job is preempted, told to stop, and goes
back into the queue; what comes out is bitwise what an undisturbed run gives.

usage: FOVEA_SLURM_TEST=1 slurm_test.py FOVEA. Ends with 77 without the variable, and where there is no Slurm: now and then
Slurm calls a job FAILED that has put itself back into the queue, which says nothing of Fovea.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import tiny_run  # noqa: E402

EPOCHS = 12
PATIENCE = 120  # s
SLURM = ROOT / "tools/setup/local_slurm"


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"slurm_test: {' '.join(map(str, what))}")


def wait_until(is_so, what):
    limit = time.monotonic() + PATIENCE
    while not is_so():
        check(time.monotonic() < limit, "waited in vain until", what)
        time.sleep(0.05)


def command(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    check(done.returncode == 0, *words, "ended with", done.returncode, done.stdout, done.stderr)
    return done.stdout.strip()


def saved_step(folder):
    try:
        return int((folder / "run/checkpoints/latest").read_text().strip().removeprefix("step_"))
    except (OSError, ValueError):
        return 0


def rank_process(job, rank):
    wanted = {f"SLURM_JOB_ID={job}".encode(), f"SLURM_PROCID={rank}".encode(), b"SLURM_STEP_ID=0"}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().startswith("fovea") and \
                    wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                return int(entry.name)
        except OSError:
            continue
    raise SystemExit(f"slurm_test: job {job} has no rank {rank}")


class Job:
    def __init__(self, folder):
        self.folder = folder
        self.number = command("sbatch", "--parsable", "--ntasks-per-node=2", f"--chdir={folder}",
                              ROOT / "recipes/slurm/one_node.sbatch", folder / "recipe.yaml")

    def fields(self):
        words = command("scontrol", "show", "job", self.number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def wait_for(self, state, restarts):
        def is_so():
            fields = self.fields()
            check(fields["JobState"] not in {"COMPLETED", "FAILED", "CANCELLED"} or fields["JobState"] == state,
                  "job", self.number, "is", fields["JobState"], "and not", state, "\n", self.output())
            return fields["JobState"] == state and int(fields["Restarts"]) == restarts
        wait_until(is_so, f"job {self.number} is {state} after {restarts} restarts")

    def wait_for_progress(self):
        """Until it has saved further than whatever was saved before it runs."""
        before = saved_step(self.folder)
        wait_until(lambda: saved_step(self.folder) > before, f"job {self.number} saves")

    def go_on(self):
        """Slurm lets a job that was requeued wait for two minutes; whoever it belongs to need not."""
        command("scontrol", "update", f"JobId={self.number}", "StartTime=now")

    def output(self):
        return (self.folder / f"fovea-{self.number}.out").read_text()


def disturb(folder):
    job = Job(folder)
    job.wait_for_progress()
    os.kill(rank_process(job.number, 1), 9)
    job.wait_for("FAILED", restarts=0)
    check("rank 1" in job.output() and "step" in job.output(), "the rank that was killed is not named:", job.output())
    print(f"slurm_test: killed a rank after step {saved_step(folder)}")

    job = Job(folder)
    job.wait_for_progress()
    command("scontrol", "requeue", job.number)  # what Slurm does when it preempts: SIGTERM, then the queue
    job.wait_for("PENDING", restarts=1)
    print(f"slurm_test: preempted, saved at step {saved_step(folder)}")
    job.go_on()
    job.wait_for_progress()
    command("scancel", "--signal=USR1", job.number)  # what --signal=USR1@300 does
    job.wait_for("PENDING", restarts=2)
    check((folder / "run/stopped").read_text() == f"step {saved_step(folder)}\n", "no file `stopped`")
    check("stopped with the state saved: back into the queue" in job.output(), job.output())
    print(f"slurm_test: told to stop, saved at step {saved_step(folder)}")
    job.go_on()
    job.wait_for("COMPLETED", restarts=2)
    check(not (folder / "run/stopped").exists(), "the file `stopped` was left behind")
    check("going on from step" in (folder / "run/train.log").read_text(), "no resume")


def skip(reason):  # in the words of the other tests, which ./check counts
    print(f"Slurm: Skipped\nskipped: {reason}\n[  SKIPPED ] 1 test")
    return 77


def main():
    if "FOVEA_SLURM_TEST" not in os.environ:
        return skip("FOVEA_SLURM_TEST=1 runs it")
    fovea = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="fovea_slurm_") as name:
        folder = pathlib.Path(name)
        started = subprocess.run([SLURM, "start", "--cpus", "64", "--gpus", "8", folder / "slurm"], capture_output=True,
                                 text=True, check=False)
        if started.returncode == 77:
            return skip(started.stderr.strip())
        check(started.returncode == 0, started.stdout, started.stderr)
        try:
            os.environ |= {"SLURM_CONF": str(folder / "slurm/slurm.conf"), "FOVEA_HOME": str(ROOT), "FOVEA": str(fovea)}
            tiny_run.write(folder / "alone", ranks=2, micro_batch_size=4, epochs=EPOCHS)
            command(fovea, "train", folder / "alone/recipe.yaml")
            tiny_run.write(folder / "job", ranks=2, micro_batch_size=4, epochs=EPOCHS)
            disturb(folder / "job")
        finally:
            subprocess.run([SLURM, "stop", folder / "slurm"], check=False)
        faults = list(tiny_run.differences(tiny_run.outcome(folder / "alone/run"), tiny_run.outcome(folder / "job/run")))
        check(not faults, "\n".join(faults))
        print("slurm_test: bitwise equal to the undisturbed run\n[  PASSED  ] 1 test.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
