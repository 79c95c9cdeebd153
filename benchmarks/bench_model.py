"""`fovea bench model` and other programs that print one JSON object, how they take turns, and what is told of many turns."""

import json
import math
import statistics
import subprocess
import sys


def run_json(command, **options):
    """The object in the last line that `command` prints; ends the script where it fails. options: of subprocess.run."""
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def in_turn(sides, turn):
    """The sides in the order of a round: who is first changes, so that nobody always follows the same one."""
    sides = list(sides)
    first = turn % len(sides)
    return sides[first:] + sides[:first]


def percentile(values, share):
    """Of sorted values; NaN of none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else math.nan


def middle_half(values):
    """-> the median, and between what the middle half of the values lies."""
    values = sorted(values)
    return statistics.median(values), values[len(values) // 4], values[3 * len(values) // 4]


def command(program, what, dtype, mode, args, **changes):
    """what: a model's name or a recipe. From args, or `changes`: device, threads, batch_size, steps, warmup."""
    options = {name: changes.get(name, getattr(args, name, None)) for name in ("device", "threads", "batch_size", "steps", "warmup")}
    return [program, "bench", "model", what, "--mode", mode, "--dtype", dtype, "--json",
            *(part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value))]


def classifier_recipe(model, **sections):
    """A recipe, as text (JSON is YAML), that trains `model` with AdamW on no data: to be measured on noise, or predicted with."""
    return json.dumps({"run": {"dir": "unused"}, "model": {"name": "vit", **model}, "task": {"name": "classification"},
                       "data": {"global_batch_size": 1}, "optim": {"name": "adamw"}, "schedule": {"name": "constant"},
                       "trainer": {"max_steps": 1}, **sections})
