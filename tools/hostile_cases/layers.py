"""Damage below checksums: what is inside of a container is taken out, changed, and put back with sums that fit.

Each layer is a function (bytes, source) -> (inside, put_back), where put_back(changed inside) gives the whole again.
"""
import gzip
import hashlib
import io
import json
import struct
import tarfile
import warnings
import zipfile
import zlib

warnings.filterwarnings("ignore", "Duplicate name", module="zipfile")  # as it should be


def whole(data, source):
    del source
    return data, lambda changed: changed


def gzipped(data, source):
    del source
    return gzip.decompress(data), lambda changed: gzip.compress(changed, 6, mtime=0)


def safetensors(data, source):
    """The header, with the length in front of it set right."""
    del source
    size = struct.unpack_from("<Q", data)[0]
    return data[8:8 + size], lambda changed: struct.pack("<Q", len(changed)) + changed + data[8 + size:]


def zip_member(data, source):
    """One file of an archive, small ones more often: headers, pickles."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    chosen = source.randrange(len(members))
    if source.random() < 0.5:
        chosen = max(range(len(members)), key=lambda i: members[i][0].filename.endswith(".pkl"))

    def put_back(changed):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for index, (info, content) in enumerate(members):
                entry = zipfile.ZipInfo(info.filename)
                archive.writestr(entry, changed if index == chosen else content, compress_type=info.compress_type)
        return out.getvalue()
    return members[chosen][1], put_back


def zip_names(data, source):
    """The names of an archive's files, one a line."""
    del source
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]

    def put_back(changed):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for (info, content), name in zip(members, changed.decode("latin-1").split("\n")):
                entry = zipfile.ZipInfo("x" + info.filename)
                entry.filename = name[:60000]
                archive.writestr(entry, content, compress_type=info.compress_type)
        return out.getvalue()
    return "\n".join(info.filename for info, _ in members).encode(), put_back


def tar_header(data, source):
    """A header's 512 bytes, with the sum set right."""
    headers = [at for at in range(0, len(data) - 511, 512) if data[at + 257:at + 262] == b"ustar"]
    at = source.choice(headers)

    def put_back(changed):
        header = bytearray(changed[:512].ljust(512, b"\0"))
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header)
        return data[:at] + bytes(header) + data[at + 512:]
    return data[at:at + 512], put_back


def tar_member(data, source):
    """The content of one file of an archive."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = [(member.name, tar.extractfile(member).read()) for member in tar if member.isfile()]
    chosen = source.randrange(len(members))

    def put_back(changed):
        return tar_of((name, changed if index == chosen else content) for index, (name, content) in enumerate(members))
    return members[chosen][1], put_back


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def within(outer, inner):
    """A layer below a layer."""
    def layer(data, source):
        middle, put_back = outer(data, source)
        inside, put_inside_back = inner(middle, source)
        return inside, lambda changed: put_back(put_inside_back(changed))
    layer.__name__ = f"{inner.__name__} in {outer.__name__}"
    return layer


def png_chunks(data):
    """(kind, start of the content, end of the content) of each chunk."""
    at = 8
    while at + 12 <= len(data):
        size = struct.unpack_from(">I", data, at)[0]
        yield data[at + 4:at + 8], at + 8, at + 8 + size
        at += 12 + size


def png_chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_content(data, source):
    """A chunk's content, with length and CRC set right."""
    kind, start, end = source.choice([chunk for chunk in png_chunks(data) if chunk[0] != b"IEND"])
    return data[start:end], lambda changed: data[:start - 8] + png_chunk(kind, changed) + data[end + 4:]


def png_rows(data, source):
    """What the pixels were deflated from."""
    del source
    chunks = list(png_chunks(data))
    packed = b"".join(data[start:end] for kind, start, end in chunks if kind == b"IDAT")
    others = [(kind, data[start:end]) for kind, start, end in chunks if kind not in (b"IDAT", b"IEND")]

    def put_back(changed):
        parts = [*others, (b"IDAT", zlib.compress(changed)), (b"IEND", b"")]
        return data[:8] + b"".join(png_chunk(*part) for part in parts)
    return zlib.decompress(packed), put_back


def manifest(data, source):
    """What a checkpoint's manifest says, with its own sum set right."""
    del source
    text = json.dumps(json.loads(data)["manifest"], indent=1).encode()

    def put_back(changed):
        try:
            inside = json.loads(changed)
        except (ValueError, RecursionError):  # not what can be signed
            return b'{"manifest": ' + changed + b', "sha256": ""}'
        signed = json.dumps(inside, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        total = hashlib.sha256(signed.encode("utf-8", "surrogatepass")).hexdigest()
        return json.dumps({"manifest": inside, "sha256": total}).encode()
    return text, put_back
