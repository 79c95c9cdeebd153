"""What a kept figure needs beside it: the day, the commit, the machine."""

import datetime
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"


def processor():
    """The processor's name and the vector instructions of it that matter here, such as ("AMD EPYC", ["avx2"])."""
    facts = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    flags = facts.get("flags", "").split()
    simd = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if flag in flags]
    return facts.get("model name", "unknown processor"), simd


def keep(name, text):
    """Writes a table to results/NAME_avx2.md, by the widest vectors of this machine."""
    path = RESULTS / f"{name}_{(processor()[1] or ['x86_64'])[-1]}.md"
    path.write_text(text)
    print(f"written: {path}")


def add_report_arguments(parser):
    """--note and --write, for show()."""
    parser.add_argument("--note", default="", help="a sentence for the end of the report")
    parser.add_argument("--write", action="store_true", help="write the report into benchmarks/results")


def show(args, name, lines):
    """Prints a report, and keeps it where --write says so."""
    text = "\n".join([*lines, *(["", args.note] if args.note else [])]) + "\n"
    print(text)
    if args.write:
        keep(name, text)


def line():
    """One line for the head of a table: "2026-11-22, commit 1a2b3c4. 2-core AMD EPYC (avx2), 24 GiB."."""
    name, simd = processor()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip() or "unknown"
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return (f"{datetime.date.today().isoformat()}, commit {commit}. {os.cpu_count()}-core {name} "
            f"({', '.join(simd) or 'no wide vectors'}), {memory:.0f} GiB.")
