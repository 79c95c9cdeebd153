"""Makes the originals once, and starts the program on copies of them."""
import os
import pathlib
import shlex
import shutil
import sys
import threading

from . import arrays, http_requests, images, process, runs, served_request, surroundings, verdict, weights

TABLES = [images, arrays, weights, runs, surroundings, http_requests]
GROUPS = {name: build for table in TABLES for name, build in table.GROUPS.items()}
ORIGINALS = [original for table in TABLES for original in table.ORIGINALS]


class Workshop:
    def __init__(self, folder, program, keep=None):
        self.folder, self.program = folder, program
        self.kept = keep and pathlib.Path(keep)
        self.lock = threading.Lock()
        self.built, self.baselines = set(), {}

    def copy(self, original, name):
        """-> a folder with the files of an original."""
        made = self.folder / "originals" / original.group
        with self.lock:
            if original.group not in self.built:
                made.mkdir(parents=True)
                GROUPS[original.group](made, self.program)
                self.built.add(original.group)
        return shutil.copytree(made, self.folder / name)

    def start(self, command, folder, damage=None):
        logs = folder.with_name(folder.name + "_logs")
        logs.mkdir(exist_ok=True)
        words = [self.program, *shlex.split(command)]
        if words[1] == served_request.WORD:
            words = [sys.executable, served_request.__file__, self.program, *words[2:]]
        if damage is None:
            return process.run(words, folder, logs)
        words += damage.more_words
        if damage.surrounding:  # where paths from the folder may lead nowhere
            words = [folder / word if (folder / os.fsdecode(word)).exists() else word for word in words]
            words = ["bash", "-c", surroundings.SURROUNDINGS[damage.surrounding], "bash", *words]
        return process.run(words, folder, logs, damage.meanwhile, has_own_limits=bool(damage.surrounding))

    def baseline(self, original, command):
        """(outcome, products) of a command on whole files."""
        key = original.group, command
        if key not in self.baselines:
            folder = self.copy(original, f"whole_{threading.get_ident()}")
            before = verdict.stamps(folder)
            outcome = self.start(command, folder)
            if outcome.code != 0:
                raise SystemExit(f"hostile: fovea {command} ended with {outcome.code} on the whole {original.name}:\n"
                                 + outcome.text.decode(errors="replace"))
            self.baselines[key] = outcome, verdict.products(folder, before)
            self.remove(folder)
        return self.baselines[key]

    def keep(self, folder):
        """The files of a fault, without what cannot be copied: pipes, holes of a terabyte."""
        def others(where, names):
            return [name for name in names if not is_small(pathlib.Path(where, name))]
        if self.kept:
            shutil.copytree(folder, self.kept / folder.name, symlinks=True, dirs_exist_ok=True, ignore=others)

    @staticmethod
    def remove(folder):
        shutil.rmtree(folder)
        shutil.rmtree(folder.with_name(folder.name + "_logs"))


def is_small(path):
    return path.is_symlink() or path.is_dir() or (path.is_file() and path.stat().st_size < 1 << 30)
