"""Arrays and volumes: IDX, CIFAR, npy, npz, raw, NIfTI, DICOM, MedMNIST."""
import contextlib
import gzip
import io
import pickle
import struct
import sys
import types
import zipfile

from . import layers
from .images import CHECK, INSPECT, OTHERS, TAR_GZ, readers
from .layers import tar_of
from .originals import Original, corpus, fovea, put, recipe

GZIP = {"is_checked": True, "layers": (layers.whole, layers.gzipped)}
ZIP = {"is_checked": True, "layers": (layers.whole, layers.whole, layers.zip_member, layers.zip_names)}


def numbers(count, step=7):
    return bytes((step * i) & 127 for i in range(count))


def npy(shape, kind="|u1", data=None, order=False):
    header = repr({"descr": kind, "fortran_order": order, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    count = 1
    for side in shape:
        count *= side
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + (data or numbers(count * int(kind[2:])))


def npz(arrays, compression=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in arrays.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), data, compress_type=compression)
    return out.getvalue()


def floats(count):
    return struct.pack(f"<{count}f", *(i % 50 / 10 for i in range(count)))


def nifti(shape=(4, 4, 3), kind=4, bits=16, data=None):
    """NIfTI-1: int16 with slope, intercept, and an sform."""
    header = bytearray(352)
    struct.pack_into("<i", header, 0, 348)
    struct.pack_into("<8h", header, 40, len(shape), *shape, *[1] * (7 - len(shape)))
    struct.pack_into("<hh", header, 70, kind, bits)
    struct.pack_into("<8f", header, 76, 1, 1, 2, 3, 1, 1, 1, 1)
    struct.pack_into("<fff", header, 108, 352, 2, -1)
    struct.pack_into("<hh", header, 252, 0, 1)
    struct.pack_into("<12f", header, 280, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0)
    header[344:348] = b"n+1\0"
    count = shape[0] * shape[1] * shape[2]
    return bytes(header) + (data or struct.pack(f"<{count}h", *(i % 90 for i in range(count))))


def dicom_element(group, element, kind, value):
    value += b"\0" * (len(value) % 2) if kind in ("UI", "OB", "OW") else b" " * (len(value) % 2)
    size = struct.pack("<HI", 0, len(value)) if kind in ("OB", "OW") else struct.pack("<H", len(value))
    return struct.pack("<HH", group, element) + kind.encode() + size + value


def dicom(position, side=8):
    """A CT slice, Explicit VR Little Endian."""
    text = lambda *words: "\\".join(words).encode()
    short = lambda value: struct.pack("<H", value)
    meta = dicom_element(2, 0x10, "UI", b"1.2.840.10008.1.2.1")
    body = b"".join(dicom_element(*parts) for parts in [
        (8, 0x18, "UI", text(f"1.2.3.{position}")), (8, 0x60, "CS", b"CT"), (0x20, 0xE, "UI", b"1.2.3"),
        (0x20, 0x13, "IS", str(position).encode()), (0x20, 0x32, "DS", text("0", "0", f"{2.5 * position}")),
        (0x20, 0x37, "DS", text("1", "0", "0", "0", "1", "0")), (0x28, 2, "US", short(1)), (0x28, 4, "CS", b"MONOCHROME2"),
        (0x28, 0x10, "US", short(side)), (0x28, 0x11, "US", short(side)), (0x28, 0x30, "DS", text("1", "1")),
        (0x28, 0x100, "US", short(16)), (0x28, 0x101, "US", short(12)), (0x28, 0x102, "US", short(11)),
        (0x28, 0x103, "US", short(0)), (0x28, 0x1052, "DS", b"-1024"), (0x28, 0x1053, "DS", b"1"),
        (0x7FE0, 0x10, "OW", struct.pack(f"<{side * side}H", *range(side * side)))])
    return b"\0" * 128 + b"DICM" + dicom_element(2, 0, "UL", struct.pack("<I", len(meta))) + meta + body


@contextlib.contextmanager
def numpy_names():
    """Modules with the names of NumPy's, so that an array can be pickled as NumPy does it."""
    names = {"numpy": ["ndarray", "dtype"], "numpy.core.multiarray": ["_reconstruct"]}
    made = {}
    for module, members in names.items():
        made[module] = types.ModuleType(module)
        for member in members:
            function = lambda *arguments: arguments
            function.__module__, function.__qualname__, function.__name__ = module, member, member
            setattr(made[module], member, function)
    made["numpy.core"] = types.ModuleType("numpy.core")
    before = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        yield made["numpy"], made["numpy.core.multiarray"]
    finally:
        for name, module in before.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module


def cifar_pickle(images=2):
    """{"data": uint8 [N, 3072], "labels": [...]} as NumPy's pickle."""
    with numpy_names() as (numpy, multiarray):
        class Type:
            def __reduce__(self):
                return numpy.dtype, ("u1", 0, 1), (3, "|", None, None, None, -1, -1, 0)

        class Array:
            def __reduce__(self):
                state = (1, (images, 3072), Type(), False, numbers(images * 3072))
                return multiarray._reconstruct, (numpy.ndarray, (0,), b"b"), state
        return pickle.dumps({"data": Array(), "labels": list(range(images)), "batch_label": "a batch",
                             "filenames": [f"{i}.png" for i in range(images)]}, protocol=2)


def idx(folder, program):
    del program
    images = struct.pack(">BBBBIII", 0, 0, 8, 3, 4, 8, 8) + numbers(256)
    labels = struct.pack(">BBBBI", 0, 0, 8, 1, 4) + bytes([0, 1, 2, 3])
    for name, data in (("images", images), ("labels", labels)):
        put(folder / name, data)
        put(folder / f"{name}.gz", gzip.compress(data, mtime=0))
    for ending in ("", ".gz"):
        put(folder / f"idx{ending}.yaml", recipe(f"format: idx, images: images{ending}, labels: labels{ending}", channels=1,
                                                 transforms="normalize"))


def cifar(folder, program):
    del program
    put(folder / "binary/data_batch_1.bin", b"\3" + numbers(3072) + b"\4" + numbers(3072, 5))
    put(folder / "binary/batches.meta.txt", "".join(f"class{i}\n" for i in range(10)))
    put(folder / "python/data_batch_1", cifar_pickle())
    meta = pickle.dumps({"label_names": [f"class{i}" for i in range(10)], "num_vis": 3072}, protocol=2)
    put(folder / "python/batches.meta", meta)
    put(folder / "cifar-10-python.tar.gz", gzip.compress(tar_of([("cifar-10-batches-py/data_batch_1", cifar_pickle()),
                                                                 ("cifar-10-batches-py/batches.meta", meta)]), mtime=0))
    for name, source in (("binary", "format: cifar, path: binary, variant: cifar10"),
                         ("python", "format: cifar_python, path: python"),
                         ("archive", "format: cifar_python, path: cifar-10-python.tar.gz")):
        put(folder / f"{name}.yaml", recipe(source, classes=10))


def volumes(folder, program):
    """Two samples of each format of volumes, with masks where the format has them."""
    masks = bytes(i % 2 for i in range(48))
    for i in range(2):
        put(folder / f"nii/images/{i}.nii", nifti())
        put(folder / f"nii/masks/{i}.nii", nifti(kind=2, bits=8, data=masks).replace(struct.pack("<ff", 2, -1), bytes(8)))
        put(folder / f"gz/{i}.nii.gz", gzip.compress(nifti(), mtime=0))
        put(folder / f"npy/{i}.npy", npy((4, 4, 3), "<f4", floats(48)))
        put(folder / f"raw/{i}.bin", floats(48))
        for position in range(3):
            put(folder / f"ct/{i}/{position}.dcm", dicom(position))
        put(folder / f"rle/{i}/a.dcm", corpus("dicom_fuzz/rle.0"))
    put(folder / "nii2/0.nii", corpus("nifti_fuzz/nifti2"))
    put(folder / "nrrd/0.nrrd", corpus("nrrd_fuzz/sitk_int16"))
    put(folder / "nrrd_gz/0.nrrd", corpus("nrrd_fuzz/sitk_int16_packed"))
    put(folder / "mha/0.mha", corpus("metaimage_fuzz/sitk_int16"))
    put(folder / "frames/0.dcm", corpus("dicom_fuzz/enhanced"))
    put(folder / "big/0.nii", corpus("nifti_fuzz/int16_big"))
    put(folder / "gz/list.csv", "path,label\n0.nii.gz,a\n1.nii.gz,b\n")
    sources = {"nii": "format: nifti, path: nii, images: 'images/*.nii', masks: 'masks/*.nii', num_classes: 2",
               "gz": "format: nifti, path: gz, images: '*.nii.gz'", "nii2": "format: nifti, path: nii2, images: '*.nii'",
               "big": "format: nifti, path: big, images: '*.nii'", "npy": "format: npy, path: npy, images: '*.npy', axes: DHW",
               "raw": "format: raw, path: raw, images: '*.bin', dtype: float32, shape: [4, 4, 3], axes: DHW",
               "nrrd": "format: nrrd, path: nrrd", "nrrd_gz": "format: nrrd, path: nrrd_gz",
               "mha": "format: metaimage, path: mha", "frames": "format: dicom, path: frames",
               "ct": "format: dicom, path: ct", "rle": "format: dicom, path: rle",
               "list": "format: nifti, path: gz, list: list.csv, class_names: [a, b]"}
    for name, source in sources.items():
        put(folder / f"{name}.yaml", recipe(source, size="[4, 4, 3]", patch="[2, 2, 1]", channels=1, transforms=""))
    fovea(program, folder, "data", "pack", "nii.yaml", "--part", "train", "--chunk", "3", "--out", "chunks_in")
    put(folder / "chunks.yaml", recipe("format: packed, path: chunks_in/train", size="[4, 4, 3]", patch="[2, 2, 1]", channels=1,
                                       transforms=""))


def brain(folder, program):
    """A wheel with the three maps that `data prepare mni152` takes."""
    del program
    head = lambda d, h: 50.0 + h if 1 <= d < 5 and 2 <= h < 13 else 0.0
    maps = {"t1": head, "gm": lambda d, h: 255.0 if h < 6 else 20.0, "wm": lambda d, h: 255.0 if d == 2 and h >= 6 else 0.0}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, value in maps.items():
            values = struct.pack("<420f", *(value(i % 6, i // 6 % 14) for i in range(420)))
            data = nifti((6, 14, 5), kind=16, bits=32, data=values).replace(struct.pack("<ff", 2, -1), bytes(8), 1)
            archive.writestr(f"nilearn/datasets/data/mni_icbm152_{name}_tal_nlin_sym_09a_converted.nii.gz",
                             gzip.compress(data, mtime=0))
    put(folder / "nilearn.whl", out.getvalue())


def arrays(folder, program):
    del program
    splits = {f"{split}_{part}": npy((2, 8, 8)) if part == "images" else npy((2, 1), data=b"\0\1")
              for split in ("train", "val", "test") for part in ("images", "labels")}
    put(folder / "medmnist.npz", npz(splits))
    put(folder / "stored.npz", npz({"images": npy((2, 8, 8)), "labels": npy((2,), data=b"\0\1")}, zipfile.ZIP_STORED))
    put(folder / "medmnist.yaml", recipe("format: medmnist, path: medmnist.npz, num_classes: 2", channels=1,
                                         transforms="normalize"))
    put(folder / "npz.yaml", recipe("format: npz, path: stored.npz, images: images, labels: labels, axes: NHW, num_classes: 2",
                                    channels=1, transforms="normalize"))


def checks(name):
    return [INSPECT.format(f"{name}.yaml"), INSPECT.format(f"{name}.yaml"), CHECK.format(f"{name}.yaml")]


def volume(name, kind, path, also_named=(), **options):
    folder = path.rpartition("/")[0] + ": no file matches"  # where the only one is missing
    return Original(name, "volumes", path, checks(kind), also_named=[folder, *also_named], **options)


GROUPS = {"idx": idx, "cifar": cifar, "volumes": volumes, "arrays": arrays, "brain": brain}
ORIGINALS = [
    Original("idx images", "idx", "images", [*readers("idx.yaml"), "eval idx.yaml --threads 1"]),
    Original("idx labels", "idx", "labels", readers("idx.yaml")),
    Original("idx images gz", "idx", "images.gz", readers("idx.gz.yaml"), **GZIP),
    Original("idx labels gz", "idx", "labels.gz", readers("idx.gz.yaml"), **GZIP),
    Original("cifar binary", "cifar", "binary/data_batch_1.bin", readers("binary.yaml")),
    Original("cifar names", "cifar", "binary/batches.meta.txt", readers("binary.yaml"), is_text=True),
    Original("cifar pickle", "cifar", "python/data_batch_1", readers("python.yaml")),
    Original("cifar pickle names", "cifar", "python/batches.meta", readers("python.yaml")),
    Original("cifar archive", "cifar", "cifar-10-python.tar.gz", readers("archive.yaml"), is_checked=True, layers=TAR_GZ),
    volume("nifti", "nii", "nii/images/0.nii"),
    volume("nifti mask", "nii", "nii/masks/0.nii"),
    volume("nifti gz", "gz", "gz/0.nii.gz", **GZIP),
    volume("nifti 2", "nii2", "nii2/0.nii"),
    volume("nifti big endian", "big", "big/0.nii"),
    volume("nrrd", "nrrd", "nrrd/0.nrrd"),
    volume("nrrd gz", "nrrd_gz", "nrrd_gz/0.nrrd"),
    volume("metaimage", "mha", "mha/0.mha"),
    volume("dicom frames", "frames", "frames/0.dcm"),
    volume("volume list", "list", "gz/list.csv", is_text=True, also_named=OTHERS),
    volume("npy", "npy", "npy/0.npy"),
    volume("raw", "raw", "raw/0.bin"),
    volume("dicom", "ct", "ct/0/1.dcm", also_named=["ct/0"], may_be_renamed=True),
    volume("dicom rle", "rle", "rle/0/a.dcm", also_named=["rle/0"]),
    volume("packed volumes", "chunks", "chunks_in/train/shard_000000.fvp", is_checked=True),
    Original("medmnist npz", "arrays", "medmnist.npz", checks("medmnist"), **ZIP),
    Original("mni152 wheel", "brain", "nilearn.whl", ["data prepare mni152 nilearn.whl --out brain"], **ZIP),
    Original("npz", "arrays", "stored.npz", checks("npz"), **ZIP),
]
