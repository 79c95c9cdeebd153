"""Whether this processor runs the module at its speed, found out before the module is loaded."""
import platform


def flags_of(cpuinfo: str) -> set[str]:
    """Of the first processor in the text of /proc/cpuinfo."""
    for line in cpuinfo.splitlines():
        if line.startswith("flags"):
            return set(line.partition(":")[2].split())
    return set()


def refuse(machine: str, flags: set[str]) -> None:
    """Raises ImportError for a processor that the wheel is not for."""
    if machine in ("x86_64", "AMD64") and "avx2" in flags:
        return
    found = f"{machine} without AVX2" if machine in ("x86_64", "AMD64") else machine
    raise ImportError(
        f"fovea: this processor is {found}; expected x86-64 with AVX2 (Intel from 2013 on, AMD from 2015 on). Use another "
        "machine; in a virtual machine, let it have the host's processor (-cpu host)")


def check() -> None:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            flags = flags_of(file.read())
    except OSError:  # hidden from this process: nothing is known, so nothing is refused
        flags = {"avx2"}
    refuse(platform.machine(), flags)
