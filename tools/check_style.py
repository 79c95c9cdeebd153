"""Style that a machine can hold: clang-format and shellcheck (where they are there) and the rules below. CONTRIBUTING.md says why."""
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

import check_globals

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = (".ci", "apps", "benchmarks", "cmake", "docs", "examples", "fovea", "python", "recipes", "tests", "tools")
CODE = {".h", ".cc", ".cu", ".cuh"}
TEXT = CODE | {".cmake", ".md", ".py", ".sh", ".txt", ".yaml", ".yml"}
MAX_COLUMNS = 100  # of code
MAX_FUNCTION_LINES = 100
MAX_FILE_BYTES = 500_000
OPENS_BODY = re.compile(r"^(?!namespace|struct|class|enum|union|extern|constexpr|const|static const|inline const)"
                        r"[A-Za-z_\[~].*\)[^;=]*\{$")

TEMP_FILES = re.compile(r"\btesting::TempDir\(\)|\btemp_directory_path\(|\bmkdtemp\(|\btmpnam\(")
OWN_TEMP_FILES = {"temp_dir.h", "cifar_fuzz.cc"}
RAW_OPENS = re.compile(r'R"\w*\((?!.*\)\w*")')  # a raw string that goes on in the next line


def long_functions(lines):
    """(line number, length) of bodies at namespace scope; clang-format puts their braces where this looks."""
    start = None
    for number, line in enumerate(lines, 1):
        if OPENS_BODY.match(line):
            start = number
        elif line.startswith("}") and start is not None:
            if number - start > MAX_FUNCTION_LINES:
                yield start, number - start
            start = None


def line_faults(path, lines):
    is_code = path.suffix in CODE
    in_raw_string = False
    for number, line in enumerate(lines, 1):
        in_raw_string = bool(RAW_OPENS.search(line)) or (in_raw_string and ')"' not in line)
        if line != line.rstrip() and path.suffix != ".md":
            yield number, "space at the end of the line"
        if "\t" in line:
            yield number, "tab"
        if is_code and len(line) > MAX_COLUMNS and not in_raw_string:
            yield number, f"{len(line)} columns, at most {MAX_COLUMNS}"
        if is_code and not line.isascii():
            yield number, "not ASCII"
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", line) and path != pathlib.Path(__file__).resolve():
            yield number, "TODO without an issue number"
        if path.suffix in {".h", ".cuh"} and re.match(r"\s*using namespace ", line):
            yield number, "using namespace in a header"
        if ROOT / "tests" in path.parents and TEMP_FILES.search(line) and path.name not in OWN_TEMP_FILES:
            yield number, "a file under a fixed name, which a test beside it may use too: take support::TempDir"


def file_faults(path):
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        yield 1, f"{size} bytes, at most {MAX_FILE_BYTES}"
    if path.suffix not in TEXT:
        return
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        yield len(lines), "no newline at the end of the file"
    if path.suffix in {".h", ".cuh"} and "#pragma once" not in text:
        yield 1, "header without #pragma once"
    yield from line_faults(path, lines)
    for number, length in long_functions(lines) if path.suffix in CODE else ():
        yield number, f"a function of {length} lines, at most {MAX_FUNCTION_LINES}"


def format_faults(paths):
    """Files that clang-format would change."""
    def unformatted(part):
        result = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, part)],
                                capture_output=True, text=True, check=False)
        return set(re.findall(r"^(.+?):\d+:\d+: error: code should be", result.stderr, re.M))
    jobs = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = set().union(*pool.map(unformatted, (paths[start::jobs] for start in range(jobs))))
    return [f"{pathlib.Path(name).relative_to(ROOT)}:1: run clang-format -i on it" for name in sorted(found)]


def is_shell_script(path):
    with path.open("rb") as file:
        line = file.readline(100)
    return line.startswith((b"#!/usr/bin/env bash", b"#!/bin/bash", b"# shellcheck shell=bash"))


def shell_faults(paths):
    """What shellcheck finds."""
    scripts = [str(path.relative_to(ROOT)) for path in paths if is_shell_script(path)]
    result = subprocess.run(["shellcheck", "-x", "-f", "gcc", *scripts], cwd=ROOT, capture_output=True, text=True,
                            check=False)
    return result.stdout.splitlines()


def main():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*"))
             if path.is_file() and "__pycache__" not in path.parts]
    faults = [f"{path.relative_to(ROOT)}:{number}: {fault}" for path in paths for number, fault in file_faults(path)]
    faults += check_globals.faults_of(ROOT)
    code = [path for path in paths if path.suffix in CODE]
    if shutil.which("clang-format"):
        faults += format_faults(code)
    else:
        print("style: clang-format is not there, layout not checked")
    if shutil.which("shellcheck"):
        faults += shell_faults([*paths, ROOT / "check", ROOT / "quickstart"])
    else:
        print("style: shellcheck is not there, shell scripts not checked")
    print("\n".join(faults + [f"style: {len(paths)} files, {len(faults)} faults"]))
    return 1 if faults or not code else 0


if __name__ == "__main__":
    sys.exit(main())
