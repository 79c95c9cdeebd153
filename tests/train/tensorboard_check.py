"""Reads the event files of a folder with TensorBoard's own reader and prints what it found, as JSON.

    tensorboard_check.py FOLDER
"""
import json
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def main():
    events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
    events.Reload()
    found = {"file_version": events.file_version, "scalars": {}}
    for tag in events.Tags()["scalars"]:
        found["scalars"][tag] = [[event.step, event.value] for event in events.Scalars(tag)]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
