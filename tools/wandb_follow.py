#!/usr/bin/env python3
"""Sends the metrics of a run folder to Weights & Biases.

Follows metrics.jsonl and logs each line under its split ("train/loss", "val/top1"). `fovea train`
starts it when the recipe has log.wandb; it ends when its standard input does, that is with the
trainer, after sending what is left. By hand, on a finished run:

    wandb_follow.py RUN_DIR --project NAME [--entity E] [--name N] [--mode online|offline] </dev/null

The id of the run there, and the last step sent, are kept in RUN_DIR/wandb_run.json, so that a
resumed run goes on with the same one. Exit status: 0 done, 3 without the package wandb.
"""

import argparse
import json
import os
import select
import sys
from pathlib import Path

NO_PACKAGE = 3
POLL_SECONDS = 1.0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--project", default="")
    parser.add_argument("--entity", default="")
    parser.add_argument("--name", default="")
    parser.add_argument("--mode", default="offline", choices=["online", "offline"])
    return parser.parse_args()


def read_config(run_dir):
    """The resolved config of the run; empty where there is none."""
    path = run_dir / "config.yaml"
    try:
        import yaml

        return yaml.safe_load(path.read_text()) or {}
    except (ImportError, OSError, ValueError):
        return {}


class State:
    """What was sent, kept in a file so that a resumed run goes on where this one ends."""

    def __init__(self, path):
        self.path = path
        self.run_id = None
        self.last_step = -1
        if path.exists():
            saved = json.loads(path.read_text())
            self.run_id, self.last_step = saved["id"], saved["last_step"]

    def save(self):
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"id": self.run_id, "last_step": self.last_step}) + "\n")
        os.replace(temporary, self.path)


class Follower:
    """Whole lines of a file that grows, or is replaced by a shorter one."""

    def __init__(self, path):
        self.path = path
        self.offset = 0
        self.inode = None

    def new_records(self):
        try:
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                if status.st_ino != self.inode or status.st_size < self.offset:
                    self.inode, self.offset = status.st_ino, 0
                file.seek(self.offset)
                text = file.read()
        except FileNotFoundError:
            return []
        end = text.rfind(b"\n") + 1
        self.offset += end
        return [json.loads(line) for line in text[:end].splitlines() if line.strip()]


def send(run, records, state):
    """Logs the records after the last step sent; those of one step go together."""
    by_step = {}
    for record in records:
        step, split = record.pop("step"), record.pop("split")
        if step <= state.last_step:
            continue
        values = by_step.setdefault(step, {})
        values["epoch"] = record.pop("epoch", None)
        values.update({f"{split}/{name}": value for name, value in record.items()})
    for step in sorted(by_step):
        run.log({k: v for k, v in by_step[step].items() if v is not None}, step=step)
    return max(by_step, default=state.last_step)


def trainer_has_ended():
    """Waits a while; true once standard input is closed."""
    ready, _, _ = select.select([sys.stdin], [], [], POLL_SECONDS)
    return bool(ready) and not os.read(sys.stdin.fileno(), 4096)


def follow(run, follower, state):
    ended = False
    held = []  # records of the newest step, to which an evaluation may still be added
    while True:
        # Read after the trainer's end was seen: nothing is written any more.
        records = held + follower.new_records()
        newest = max((record["step"] for record in records), default=-1)
        now = records if ended else [r for r in records if r["step"] < newest]
        held = [] if ended else [r for r in records if r["step"] >= newest]
        if now:
            state.last_step = send(run, now, state)
            state.save()
        if ended:
            return
        ended = trainer_has_ended()


def main():
    arguments = parse_arguments()
    try:
        import wandb
    except ImportError as error:
        print(f"wandb_follow: {error}; pip install wandb", file=sys.stderr)
        return NO_PACKAGE
    state = State(arguments.run_dir / "wandb_run.json")
    run = wandb.init(
        project=arguments.project or None,
        entity=arguments.entity or None,
        name=arguments.name or arguments.run_dir.resolve().name,
        id=state.run_id,
        resume="allow" if state.run_id else None,
        mode=arguments.mode,
        dir=str(arguments.run_dir),
        config=read_config(arguments.run_dir),
        settings=wandb.Settings(console="off"),
    )
    state.run_id = run.id
    state.save()
    follow(run, Follower(arguments.run_dir / "metrics.jsonl"), state)
    run.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
