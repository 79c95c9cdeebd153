#!/usr/bin/env python3
"""What the batch scripts ask srun for, by a srun that says what it was asked. usage: batch_scripts_test.py"""
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ASKED = "#!/bin/sh\necho \"srun $*\"\n"


def asked(script, folder, **variables):
    """The words after srun, of a job on one node."""
    env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", FOVEA=str(folder / "fovea"), SLURM_SUBMIT_DIR=str(ROOT), SLURM_JOB_ID="1",
               SLURM_JOB_NODELIST="node", SLURM_CPUS_PER_TASK="7", **variables)
    done = subprocess.run(["bash", ROOT / "recipes/slurm" / script, ROOT / "recipes/fashion_mnist/vit.yaml"], env=env, text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{script} ended with {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()[-1].split()


def check(is_so, *what):
    if not is_so:
        raise SystemExit(f"batch_scripts_test: {' '.join(map(str, what))}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program, text in (("srun", ASKED), ("fovea", f"#!/bin/sh\necho \"  dir: {folder}/run\"\n")):
            (folder / program).write_text(text)
            (folder / program).chmod(0o755)
        gpus = {"--gpus-per-task=1", "--gpu-bind=closest"}
        with_gpus = asked("frontier.sbatch", folder, FOVEA_GPUS="yes")
        without = asked("frontier.sbatch", folder, FOVEA_GPUS="no")
        as_found = asked("frontier.sbatch", folder, FOVEA_GPUS="")
        others = asked("several_nodes.sbatch", folder, FOVEA_GPUS="yes")
        check(gpus <= set(with_gpus), "frontier.sbatch with GPUs asks for", *with_gpus)
        check(not gpus & set(without), "frontier.sbatch without GPUs asks for", *without)
        check("--cpus-per-task=7" in without, "the cores of a task are lost:", *without)
        has_any = pathlib.Path("/dev/nvidiactl").exists() or pathlib.Path("/dev/kfd").exists()
        check(as_found == (with_gpus if has_any else without), "found GPUs are not what is asked for:", *as_found)
        check(not gpus & set(others), "several_nodes.sbatch says itself what it wants; it asks for", *others)


if __name__ == "__main__":
    main()
