"""Golden values for the archives of data/: tars by webdataset and by Python.

Usage: python tools/golden/make_packed.py   (webdataset 1.0.2, Pillow 11.3.0, numpy 2.3.3, safetensors 0.6.2)
Writes tests/golden/data_packed.safetensors. Keys: "wds.tar" the tar that webdataset.TarWriter wrote; "wds.keys" its keys,
one a line; "wds.labels"; "wds.pixels.N" what webdataset decodes sample N to; "wds.index" DALI's index of it, v1.2, by the
rule of wds2idx; "tar.pax", "tar.gnu", "tar.ustar" archives with long names by Python's tarfile.
"""
import io
import pathlib
import tarfile
import tempfile

import numpy as np
import webdataset
from PIL import Image
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "data_packed.safetensors"

tensors = {}


def add(key, data):
    tensors[key] = np.frombuffer(data, np.uint8).copy() if isinstance(data, bytes) else np.ascontiguousarray(data)


def picture(seed, size=(12, 9), kind="JPEG"):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 255, (*size, 3)).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


def make_wds(folder):
    path = folder / "golden.tar"
    labels = [3, 0, 2, 1, 3]
    with webdataset.TarWriter(str(path), mtime=0) as writer:
        for i, label in enumerate(labels):
            writer.write({"__key__": f"part/{i:06d}", "jpg": picture(i), "cls": label,
                          "json": {"label": label, "name": f"class {label}"}})
    add("wds.tar", path.read_bytes())
    add("wds.labels", np.array(labels, np.int64))
    keys = []
    for i, sample in enumerate(webdataset.WebDataset(str(path), shardshuffle=False).decode("rgb8")):
        keys.append(sample["__key__"])
        add(f"wds.pixels.{i}", sample["jpg"])
        assert sample["cls"] == labels[i]
    add("wds.keys", "\n".join(keys).encode())
    lines, last = [], None
    with tarfile.open(path) as archive:
        for member in archive:
            stem, _, name = member.name.rpartition("/")
            base, _, ending = name.partition(".")
            if (stem, base) != last:
                lines.append([])
            last = (stem, base)
            lines[-1].append(f"{ending} {member.offset_data} {member.size} {member.name}")
    add("wds.index", (f"v1.2 {len(lines)}\n" + "".join(" ".join(line) + "\n" for line in lines)).encode())


def make_tars():
    names = ["short.txt", "folder/" + "x" * 120 + ".jpg", "a" * 60 + "/" + "b" * 60 + "/c.txt"]
    for key, kind in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("ustar", tarfile.USTAR_FORMAT)):
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=kind) as archive:
            for i, name in enumerate(names):
                if kind == tarfile.USTAR_FORMAT and "x" * 120 in name:
                    continue  # it cannot hold this one
                info = tarfile.TarInfo(name)
                info.size = 10 * i + 1
                archive.addfile(info, io.BytesIO(bytes([65 + i]) * info.size))
            for name, kind_of in (("folder", tarfile.DIRTYPE), ("link", tarfile.SYMTYPE)):
                info = tarfile.TarInfo(name)
                info.type = kind_of
                info.linkname = "short.txt" if kind_of == tarfile.SYMTYPE else ""
                archive.addfile(info)
        add(f"tar.{key}", stream.getvalue())


def main():
    with tempfile.TemporaryDirectory() as folder:
        make_wds(pathlib.Path(folder))
    make_tars()
    save_file(tensors, OUT)
    print(f"{OUT}: {OUT.stat().st_size} bytes, {len(tensors)} arrays")


if __name__ == "__main__":
    main()
