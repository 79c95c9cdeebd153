"""`fovea serve` as a process of a script: on any free port, told by its first line."""
import contextlib
import json
import subprocess


@contextlib.contextmanager
def serving(fovea, *words, **options):
    """-> the process, and the object of its first line (None: it ended without one). Killed where it has not ended at the end.

    words: more of the command line; options: of subprocess.Popen, such as stderr and env.
    """
    process = subprocess.Popen([str(word) for word in (fovea, "serve", *words, "--port", "0", "--json")], stdout=subprocess.PIPE,
                               text=True, **options)
    try:
        line = process.stdout.readline()
        yield process, json.loads(line) if line else None
    finally:
        process.kill()
        process.communicate()
