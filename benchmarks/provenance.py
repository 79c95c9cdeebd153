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
    if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":  # nor does libtorch use more: see README.md
        simd = simd[:1]
    return facts.get("model name", "unknown processor"), simd


def kept_name(name):
    """NAME_avx2, by the widest vectors of this machine."""
    return f"{name}_{(processor()[1] or ['x86_64'])[-1]}"


def keep(name, text, suffix="md"):
    """Writes a table, or a picture, into results/."""
    path = RESULTS / f"{kept_name(name)}.{suffix}"
    path.write_text(text)
    print(f"written: {path}")


def name_for(name, model, usual):
    """NAME for the model that is measured by default, NAME_MODEL for another one."""
    return name if model == usual else f"{name}_{model}"


def add_report_arguments(parser):
    """--note and --write, for show()."""
    parser.add_argument("--note", default="", help="a sentence for the end of the report")
    parser.add_argument("--write", action="store_true", help="write the report into benchmarks/results")


def show(args, name, lines, picture=""):
    """Prints a report, and keeps it where --write says so; picture: SVG that stands at its end."""
    if picture and args.write:
        lines = [*lines, f"![picture]({kept_name(name)}.svg)"]
    text = "\n".join([*lines, *(["", args.note] if args.note else [])]) + "\n"
    print(text)
    if not args.write:
        return
    keep(name, text)
    if picture:
        keep(name, picture, "svg")


def line():
    """One line for the head of a table: "2026-11-22, commit 1a2b3c4. 2-core AMD EPYC (avx2), 24 GiB."."""
    name, simd = processor()
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip() or "unknown"
    memory = int(pathlib.Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return (f"{datetime.date.today().isoformat()}, commit {commit}. {os.cpu_count()}-core {name} "
            f"({', '.join(simd) or 'no wide vectors'}), {memory:.0f} GiB."
            + (f" FOVEA_KERNELS={forced}." if (forced := os.environ.get("FOVEA_KERNELS")) else ""))
