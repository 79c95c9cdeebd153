"""Golden files of volumes and arrays: what nibabel, NumPy, pickle and pydicom read out of small files.

Usage: python tools/golden/make_volumes.py
(numpy 2.2.6, nibabel 5.3.2, pydicom 3.0.1, h5py 3.14.0, safetensors 0.6.2)
Writes tests/golden/data_volumes.safetensors. Keys: "file.KIND.NAME" the bytes of a file; "values.NAME" what the
library reads out of it as float32; "affine.NAME" [3, 4] float64; "canonical.NAME" and "canonical_affine.NAME"
the same after nibabel's as_closest_canonical; "spacing.NAME" [3]. And the starting inputs of the fuzz targets,
tests/fuzz/corpus/{nifti,zip,pickle,dicom}_fuzz/.
"""

import copyreg
import gzip
import io
import pathlib
import pickle
import struct
import tarfile

import h5py
import nibabel as nib
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, ImplicitVRLittleEndian, RLELossless
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
rng = np.random.default_rng(7)
tensors = {}


def add_file(kind, name, data, corpus=False):
    tensors[f"file.{kind}.{name}"] = np.frombuffer(data, np.uint8).copy()
    if corpus:
        folder = CORPUS / f"{kind}_fuzz"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def add_nifti(name, image, corpus=False):
    data = image.to_bytes()
    image = type(image).from_bytes(data)
    add_file("nifti", name, data, corpus)
    values = np.asarray(image.get_fdata(), np.float32)
    tensors[f"values.{name}"] = np.ascontiguousarray(values)
    tensors[f"affine.{name}"] = np.ascontiguousarray(image.affine[:3])
    tensors[f"spacing.{name}"] = nib.affines.voxel_sizes(image.affine)
    if image.ndim == 3:
        canonical = nib.as_closest_canonical(image)
        tensors[f"canonical.{name}"] = np.ascontiguousarray(canonical.get_fdata(), np.float32)
        tensors[f"canonical_affine.{name}"] = np.ascontiguousarray(canonical.affine[:3])


def nifti_files():
    affine = np.array([[0.1, -1.5, 0, 10], [-0.8, 0.2, 0.1, -20], [0.05, 0, 3, 5], [0, 0, 0, 1]])
    shape = (5, 4, 3)
    for dtype in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"):
        for order, word in (("<", "little"), (">", "big")):
            data = (rng.normal(0, 40, shape) + (60 if dtype[0] == "u" else 0)).clip(0 if dtype[0] == "u" else -128, 127)
            header = nib.Nifti1Header(endianness=order)
            header.set_data_dtype(np.dtype(order + dtype))
            add_nifti(f"{np.dtype(dtype).name}_{word}", nib.Nifti1Image(data.astype(order + dtype), affine, header),
                      corpus=(dtype == "i2"))
    data = rng.integers(-1000, 3000, shape).astype(np.int16)
    scaled = nib.Nifti1Image(data, np.diag([2, 1.25, 0.5, 1]))
    scaled.header.set_slope_inter(0.37, -12.25)
    raw = bytearray(scaled.to_bytes())
    raw[112:120] = struct.pack("<ff", 0.37, -12.25)  # to_bytes rescales; this keeps what was set
    add_nifti("scaled", nib.Nifti1Image.from_bytes(bytes(raw)))
    qform = nib.Nifti1Image(data, None)
    angle = np.array([[0.36, 0.48, -0.8], [-0.8, 0.6, 0], [0.48, 0.64, 0.6]])
    for name, flip in (("qform", 1), ("qform_flipped", -1)):
        matrix = np.eye(4)
        matrix[:3, :3] = angle @ np.diag([1, 2, 3 * flip])
        matrix[:3, 3] = (-7, 8, 9)
        qform.set_sform(None, code=0)
        qform.set_qform(matrix, code=1)
        add_nifti(name, qform)
    frames = rng.integers(0, 255, (4, 3, 2, 3)).astype(np.uint8)
    add_nifti("frames", nib.Nifti1Image(frames, affine))
    add_nifti("vector", nib.Nifti1Image(frames[:, :, :, None, :], affine))
    add_nifti("flat", nib.Nifti1Image(frames[:, :, 0, 0], affine))
    add_nifti("nifti2", nib.Nifti2Image(data, affine), corpus=True)
    big = nib.Nifti2Header(endianness=">")
    big.set_data_dtype(np.dtype(">f4"))
    add_nifti("nifti2_big", nib.Nifti2Image(data.astype(">f4"), affine, big))
    packed = gzip.compress(bytes(tensors["file.nifti.int16_little"]), mtime=0)
    add_file("nifti", "packed", packed, corpus=True)


def npz_bytes(compressed, **arrays):
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def smooth(shape):
    grids = np.meshgrid(*[np.arange(size) for size in shape], indexing="ij")
    return (sum((i + 3) * grid for i, grid in enumerate(grids)) % 256).astype(np.uint8)


def npz_files():
    for name, tail in (("gray", (28, 28)), ("color", (28, 28, 3)), ("volume", (28, 28, 28))):
        arrays = {}
        for i, (split, count) in enumerate((("train", 3), ("val", 2), ("test", 2))):
            arrays[f"{split}_images"] = smooth((count, *tail)) + np.uint8(i)
            arrays[f"{split}_labels"] = ((np.arange(count) + i) % 4).astype(np.uint8)[:, None]
        add_file("zip", f"medmnist_{name}.npz", npz_bytes(True, **arrays))
        tensors[f"values.medmnist_{name}"] = arrays["val_images"]
        tensors[f"labels.medmnist_{name}"] = arrays["val_labels"][:, 0].copy()
    arrays = {"images": rng.normal(size=(2, 2, 3, 4, 5)).astype(np.float32), "labels": np.array([1, 0]),
              "masks": rng.integers(0, 3, (2, 3, 4, 5)).astype(np.int16)}
    add_file("zip", "stored.npz", npz_bytes(False, **arrays), corpus=True)
    add_file("zip", "deflated.npz", npz_bytes(True, **arrays), corpus=True)
    tensors["values.npz"] = arrays["images"]
    tensors["masks.npz"] = arrays["masks"]
    objects = npz_bytes(True, images=np.array([{}, []], dtype=object), labels=np.array([1, 0]))
    add_file("zip", "objects.npz", objects)


class Python2Pickler(pickle._Pickler):
    """Writes str and bytes as Python 2 wrote its str, which is how the CIFAR archives were made."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self, value):
        data = value.encode() if isinstance(value, str) else value
        if len(data) < 256:
            self.write(b"U" + bytes([len(data)]) + data)
        else:
            self.write(b"T" + struct.pack("<i", len(data)) + data)
        self.memoize(value)

    dispatch[str] = save_string
    dispatch[bytes] = save_string


def python2_pickle(value):
    stream = io.BytesIO()
    Python2Pickler(stream, 2).dump(value)
    return stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def tar_gz(members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as archive:
        folder = tarfile.TarInfo(next(iter(members)).split("/")[0])
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return gzip.compress(stream.getvalue(), mtime=0)


def cifar_files():
    members = {}
    pixels = smooth((12, 3072))
    labels = [3, 9, 0, 1, 2, 4, 5, 6, 7, 8, 0, 9]
    files = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for i, name in enumerate(files):
        rows = slice(2 * i, 2 * i + 2)
        batch = {"batch_label": name, "labels": labels[rows], "data": pixels[rows],
                 "filenames": [f"{k}.png" for k in range(2)]}
        members[f"cifar-10-batches-py/{name}"] = python2_pickle(batch)
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    meta = {"num_cases_per_batch": 2, "label_names": names, "num_vis": 3072}
    members["cifar-10-batches-py/batches.meta"] = python2_pickle(meta)
    members["cifar-10-batches-py/readme.html"] = b"<meta>"
    add_file("cifar", "cifar-10-python.tar.gz", tar_gz(members))
    tensors["values.cifar"] = np.ascontiguousarray(pixels.reshape(12, 3, 32, 32).transpose(0, 2, 3, 1))
    tensors["labels.cifar"] = np.array(labels)
    hundred = {}
    for name, rows in (("train", slice(0, 4)), ("test", slice(4, 6))):
        count = rows.stop - rows.start
        batch = {"fine_labels": [99 - k for k in range(count)], "coarse_labels": [k for k in range(count)],
                 "data": pixels[rows], "batch_label": name}
        hundred[f"cifar-100-python/{name}"] = python2_pickle(batch)
    meta = {"fine_label_names": [f"fine{k}" for k in range(100)], "coarse_label_names": [f"coarse{k}" for k in range(20)]}
    hundred["cifar-100-python/meta"] = python2_pickle(meta)
    add_file("cifar", "cifar-100-python.tar.gz", tar_gz(hundred))
    value = {"labels": [1, 300, 70000, -5, 2**40, True, None, 0.5], "text": "caf\u00e9", b"bytes": b"\x00\xff" * 3,
             "data": np.arange(6, dtype=np.uint8).reshape(2, 3), "big": np.arange(3, dtype=">i4"), "tuple": (1, "a", ())}
    for protocol in (2, 3, 4, 5):
        add_file("pickle", f"protocol{protocol}", pickle.dumps(value, protocol), corpus=True)
    add_file("pickle", "python2", python2_pickle({"labels": [1, 2], "data": np.arange(6, dtype=np.uint8)}), corpus=True)
    add_file("pickle", "system", pickle.dumps(copyreg.pickle, 2))  # a function, which is a name to be loaded


def dicom_slice(number, position, pixels, syntax, **changes):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = f"1.2.826.0.1.3680043.8.498.{number + 1}"
    meta.TransferSyntaxUID = syntax if syntax != RLELossless else ExplicitVRLittleEndian
    ds = Dataset()
    ds.file_meta = meta
    ds.SOPClassUID = CTImageStorage
    ds.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    ds.SeriesInstanceUID = "1.2.826.0.1.3680043.8.498.99"
    ds.Modality = "CT"
    item = Dataset()
    item.StudyDescription = "nested"
    inner = Dataset()
    inner.CodeValue = "T-D1100"
    item.AnatomicRegionSequence = Sequence([inner])
    ds.ReferencedStudySequence = Sequence([item])
    ds["ReferencedStudySequence"].is_undefined_length = True
    item["AnatomicRegionSequence"].is_undefined_length = True
    item.is_undefined_length_sequence_item = True
    ds.InstanceNumber = number
    ds.ImagePositionPatient = list(position)
    ds.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    ds.PixelSpacing = [0.75, 0.5]
    ds.SliceThickness = 2.5
    ds.SamplesPerPixel = 1
    ds.PhotometricInterpretation = "MONOCHROME2"
    ds.Rows, ds.Columns = pixels.shape
    ds.BitsAllocated = pixels.dtype.itemsize * 8
    ds.BitsStored = ds.BitsAllocated
    ds.HighBit = ds.BitsStored - 1
    ds.PixelRepresentation = int(pixels.dtype.kind == "i")
    ds.RescaleIntercept = -1024
    ds.RescaleSlope = 1.5
    for key, value in changes.items():
        setattr(ds, key, value)
    ds.PixelData = pixels.tobytes() + b"\0" * (pixels.nbytes % 2)
    ds["PixelData"].VR = "OW" if pixels.dtype.itemsize > 1 else "OB"
    if syntax == RLELossless:
        ds.compress(RLELossless, generate_instance_uid=False)
    stream = io.BytesIO()
    pydicom.dcmwrite(stream, ds, enforce_file_format=True)
    return stream.getvalue()


def dicom_files():
    for name, dtype, syntax in (("explicit", "i2", ExplicitVRLittleEndian), ("implicit", "u2", ImplicitVRLittleEndian),
                                ("bytes", "u1", ExplicitVRLittleEndian), ("signed_bytes", "i1", ImplicitVRLittleEndian),
                                ("rle", "i2", RLELossless), ("rle_bytes", "u1", RLELossless)):
        values = []
        for number, z in enumerate((5.0, -2.5, 2.5, 0.0)):  # files are not in the order of places
            low, high = (-100, 100) if dtype[0] == "i" else (0, 200)
            pixels = rng.integers(low, high, (5, 3)).astype(dtype)
            pixels[2:4] = pixels[2, 0]  # runs
            data = dicom_slice(number, (-10.0, 20.0, z), pixels, syntax, RescaleSlope=str(1.5 + 0.25 * number))
            add_file("dicom", f"{name}.{number}", data, corpus=(number == 0))
            ds = pydicom.dcmread(io.BytesIO(data))
            values.append((z, ds.pixel_array * float(ds.RescaleSlope) + float(ds.RescaleIntercept)))
        ordered = [value for _, value in sorted(values, key=lambda pair: pair[0])]
        tensors[f"values.dicom_{name}"] = np.stack(ordered).astype(np.float32)
    plain = dicom_slice(0, (0, 0, 0), np.zeros((2, 2), np.uint16), ExplicitVRLittleEndian)
    uid = b"1.2.840.10008.1.2.1\0"
    changed = bytearray(plain.replace(b"UI\x14\x00" + uid, b"UI\x16\x00" + b"1.2.840.10008.1.2.4.90"))
    changed[140] += 2  # the length of the meta information
    add_file("dicom", "jpeg2000", bytes(changed))
    color = dicom_slice(0, (0, 0, 0), np.zeros((2, 2), np.uint8), ExplicitVRLittleEndian, SamplesPerPixel=3,
                        PhotometricInterpretation="RGB", PlanarConfiguration=0)
    add_file("dicom", "color", color)
    add_file("dicom", "frames", dicom_slice(0, (0, 0, 0), np.zeros((4, 2), np.uint16), ExplicitVRLittleEndian,
                                            Rows=2, NumberOfFrames=2))


def hdf5_files():
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset("images", data=tensors["values.npz"], chunks=(1, 2, 3, 4, 5), compression="gzip")
        file.create_dataset("group/masks", data=tensors["masks.npz"].astype(">i2"))
        file["labels"] = np.array([1, 0])
        file["pixels"] = tensors["values.medmnist_color"]
        file["words"] = np.array([b"a", b"b"])
    add_file("hdf5", "a", stream.getvalue())


nifti_files()
npz_files()
hdf5_files()
cifar_files()
dicom_files()
out = ROOT / "tests" / "golden" / "data_volumes.safetensors"
save_file(tensors, out, metadata={"numpy": np.__version__, "nibabel": nib.__version__, "pydicom": pydicom.__version__})
print(len(tensors), "arrays,", out.stat().st_size, "bytes")
