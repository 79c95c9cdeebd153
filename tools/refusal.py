"""What the program says where it refuses a command: for tools that try what many of them do (what_works, same_numbers)."""
import os
import re
import subprocess

EXIT_CODES = {2, 3, 4}  # of a refusal; docs/run_folder.md
FOREIGN = re.compile(r"fault of this program|terminate called|std::|c10::|Traceback")
PATIENCE = 300  # s


def refusal(fovea, folder, command):
    """Of `fovea command`, run in the folder: None where it is done, else why not, as one line without the rank that says it.

    Raises what is neither: a signal, another exit code, a text of a library."""
    done = subprocess.run([fovea, *command.split()], cwd=folder, env=dict(os.environ, OMP_NUM_THREADS="1"), timeout=PATIENCE,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    if done.returncode not in EXIT_CODES or FOREIGN.search(done.stdout) or not lines:
        raise RuntimeError(f"{command}: exit code {done.returncode}: {done.stdout[-2000:]}")
    return re.sub(r"^(rank \d+: )", "", lines[-1].removeprefix("error: "))
