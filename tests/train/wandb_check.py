"""Reads what the Weights & Biases client recorded offline in a run folder and prints it, as JSON.

    wandb_check.py RUN_DIR
"""
import json
import pathlib
import struct
import sys

from wandb.proto import wandb_internal_pb2

BLOCK = 32768
FULL, FIRST, LAST = 1, 2, 4


def chunks(path):
    """The records of a .wandb file: a log of 32 KiB blocks, as LevelDB writes them, after a header of 7 bytes."""
    content = path.read_bytes()
    at, record = 7, b""
    while at + 7 <= len(content):
        if BLOCK - at % BLOCK < 7:  # what is left of a block is too short for a record
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        record = (b"" if kind in (FULL, FIRST) else record) + content[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (FULL, LAST):
            yield record


def records(path):
    for chunk in chunks(path):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(chunk)
        yield record


def main():
    found = {"run_ids": [], "history": []}
    for path in sorted(pathlib.Path(sys.argv[1]).glob("wandb/offline-run-*/*.wandb")):
        for record in records(path):
            if record.WhichOneof("record_type") == "run":
                if record.run.run_id not in found["run_ids"]:
                    found["run_ids"].append(record.run.run_id)
            elif record.WhichOneof("record_type") == "history":
                items = {item.key or "/".join(item.nested_key): json.loads(item.value_json)
                         for item in record.history.item}
                own = {"_step": items.get("_step", record.history.step.num)}
                own.update((k, v) for k, v in items.items() if not k.startswith("_"))
                found["history"].append(own)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
