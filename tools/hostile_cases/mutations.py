"""Damage to bytes. Each mutation is a function (data, source) -> changed bytes, or None where there is nothing to change."""
import re
import struct

from . import texts

# Where containers put their parts: PNG, JPEG, zip, tar, DICOM, NIfTI, JSON, text.
BOUNDARY = re.compile(rb"IHDR|PLTE|tRNS|IDAT|IEND|\xff[\xc0-\xfe]|PK[\x01-\x08][\x01-\x08]|ustar|DICM|n\+1|FOVEA|\x93NUMPY"
                      rb"|OB|OW|US|UL|DS|\"data_offsets\"|[{}\[\]\n,]")
SIZES = [0, 1, -1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 10**9, 10**12,
         0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF]
REALS = [float("inf"), float("-inf"), float("nan"), 1e308, -1e308, 5e-324, 0.0, -0.0]


def boundaries(data):
    """The starts and ends of parts, and the ends of common header sizes."""
    found = {at for match in BOUNDARY.finditer(data) for at in match.span()}
    found |= {at for at in (1, 2, 4, 8, 16, 32, 64, 128, 132, 256, 348, 352, 512, 1024) if at < len(data)}
    return sorted(found) or [0]


def place(data, source):
    """Headers and boundaries more often than the rest."""
    choice = source.random()
    if choice < 0.4:
        return source.randrange(max(1, min(len(data), 512)))
    if choice < 0.7:
        return min(source.choice(boundaries(data)), max(0, len(data) - 1))
    return source.randrange(max(1, len(data)))


def truncated(data, source):
    if source.random() < 0.5:
        return data[:source.choice(boundaries(data))]
    return data[:source.randrange(max(1, len(data)))]


def flipped(data, source):
    changed = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 8]) if changed else 0):
        changed[place(data, source)] ^= 1 << source.randrange(8)
    return bytes(changed)


def block(data, source):
    edges = sorted(source.choice([place(data, source), source.choice(boundaries(data))]) for _ in range(2))
    return edges if edges[0] < edges[1] else [edges[0], min(len(data), edges[0] + source.choice([1, 4, 64, 512]))]


def spliced(data, source):
    """A block moved, doubled or dropped; or the whole file twice."""
    start, end = block(data, source)
    part, rest = data[start:end], data[:start] + data[end:]
    choice = source.randrange(5)
    if choice == 0:
        return rest
    if choice == 1:
        return data[:end] + part * source.choice([1, 1, 50]) + data[end:]
    if choice == 2:
        at = source.randrange(len(rest) + 1)
        return rest[:at] + part + rest[at:]
    if choice == 3:
        return data + data
    return data + bytes(source.randrange(256) for _ in range(source.choice([1, 3, 512, 4096])))


def sized(data, source):
    """An integer or a real number of 1 to 8 bytes, of either byte order, becomes an extreme one."""
    at = place(data, source)
    width = source.choice([1, 2, 4, 4, 8, 8])
    order = source.choice(["little", "big"])
    if width == 8 and source.random() < 0.15:
        new = struct.pack("<d" if order == "little" else ">d", source.choice(REALS))
    elif width == 4 and source.random() < 0.15:
        new = struct.pack("<f" if order == "little" else ">f", source.choice(REALS[:3] + REALS[6:]))
    else:
        new = (source.choice(SIZES) & ((1 << 8 * width) - 1)).to_bytes(width, order)
    return (data[:at] + new + data[at + width:])[:max(len(data), 1)]


def filled(data, source):
    start, end = block(data, source)
    fill = source.choice([b"\0", b"\xff", b"\x1b", b"9", None])
    new = fill * (end - start) if fill else bytes(source.randrange(256) for _ in range(min(end - start, 65536)))
    return data[:start] + new + data[start + len(new):]


def renamed(data, source):
    """A name inside of the file becomes as long a hostile one."""
    span = texts.chosen(texts.WORD, data[:1 << 20], source)
    if not span:
        return None
    size = span[1] - span[0]
    return texts.replaced(data, span, (source.choice(texts.NAMES[:12]) * size)[:size].ljust(size, b"\x1b"))


MUTATIONS = {"truncate": truncated, "flip": flipped, "splice": spliced, "size": sized, "fill": filled, "rename": renamed}
