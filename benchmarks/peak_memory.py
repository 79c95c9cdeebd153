"""The most memory that this process held."""

import pathlib


def reset():
    """The most from now on."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def bytes_since_reset():
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
