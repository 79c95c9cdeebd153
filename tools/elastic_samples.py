"""Which samples the workers of an elastic run were trained on, counted here and by `fovea elastic audit`."""
import json
import shutil
import subprocess

from elastic_processes import check, lines_of


def counted_samples(folder):
    """By epoch, how often each id was trained on: of generations that did one step the last one counts."""
    lines = [line for path in (folder / "samples").glob("*.jsonl") for line in lines_of(path)]
    check(lines, folder, "has no samples")
    first_step = {}
    for line in lines:
        first_step[line["generation"]] = min(line["step"], first_step.get(line["generation"], line["step"]))
    size = 1 + max(sample for line in lines for sample in line["ids"])
    counts = {}
    for line in lines:
        if any(line["step"] >= step for generation, step in first_step.items() if generation > line["generation"]):
            continue
        epoch = counts.setdefault(line["position"] // size, {})
        for sample in line["ids"]:
            epoch[sample] = epoch.get(sample, 0) + 1
    return counts


def check_once(folder, samples, is_whole=True):
    """Each sample once an epoch, by count; is_whole: the run has come to its end, the end of an epoch."""
    counts = counted_samples(folder)
    last = max(counts)
    check(sorted(counts) == list(range(last + 1)) and last > 0, folder.name, "epochs", sorted(counts))
    for epoch, ids in counts.items():
        missing = set(range(samples)) - ids.keys() if is_whole or epoch < last else ()
        doubled = [sample for sample, count in ids.items() if count != 1]
        check(not missing and not doubled, folder.name, "epoch", epoch, "missing", sorted(missing)[:5], "doubled", doubled[:5])


def audit(fovea, folder, *words):
    """-> exit code and what it says."""
    done = subprocess.run([str(fovea), "elastic", "audit", str(folder), "--json", *words], capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr


def doctored(folder, copy):
    """A copy of what the audit reads, in which the last sample of some line is the first one of it."""
    shutil.copytree(folder / "samples", copy / "samples")
    shutil.copy(folder / "events.jsonl", copy)
    path = max((copy / "samples").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    lines = lines_of(path)
    last = next(line for line in reversed(lines) if len(line["ids"]) > 1)
    last["ids"][-1] = last["ids"][0]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return copy
