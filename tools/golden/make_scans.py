"""Golden files of scans: NRRD and MetaImage files as pynrrd and SimpleITK write them, and what they hold.

Usage: python tools/golden/make_scans.py
(numpy 2.4.6, pynrrd 1.1.3, SimpleITK 2.5.7, nibabel 5.4.2, safetensors 0.8.0)
Writes tests/golden/data_scans.safetensors. Keys: "file.SCAN/NAME" the bytes of a file, of which SCAN names what it
holds; "values.SCAN" [C, x, y, z] float32 as they are stored; "affine.SCAN" [3, 4] float64, where the scan has a place
in the patient: nibabel's of the NIfTI file that SimpleITK writes of it; "canonical.SCAN" and "canonical_affine.SCAN"
the same after nibabel's as_closest_canonical; "spacing.SCAN" [3]. And the starting inputs of the fuzz targets,
tests/fuzz/corpus/{nrrd,metaimage}_fuzz/.
"""

import pathlib
import tempfile

import nibabel as nib
import nrrd
import numpy as np
import SimpleITK as sitk
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
TYPES = {"u1": sitk.sitkUInt8, "i1": sitk.sitkInt8, "u2": sitk.sitkUInt16, "i2": sitk.sitkInt16, "u4": sitk.sitkUInt32,
         "i4": sitk.sitkInt32, "u8": sitk.sitkUInt64, "i8": sitk.sitkInt64, "f4": sitk.sitkFloat32,
         "f8": sitk.sitkFloat64}
rng = np.random.default_rng(11)
tensors = {}
folder = pathlib.Path(tempfile.mkdtemp())


def keep(scan, names, corpus=False):
    for name in names:
        data = (folder / name).read_bytes()
        tensors[f"file.{scan}/{name}"] = np.frombuffer(data, np.uint8).copy()
        if corpus and name.endswith((".nrrd", ".mha")):
            target = CORPUS / f"{'nrrd' if name.endswith('.nrrd') else 'metaimage'}_fuzz"
            target.mkdir(parents=True, exist_ok=True)
            (target / name.split(".")[0]).write_bytes(data)


def numbers(dtype, shape):
    low = 0 if dtype[-2] == "u" else -100
    return rng.integers(low, 120, shape).astype(dtype) if dtype[-2] != "f" else rng.normal(0, 40, shape).astype(dtype)


def turned(image, spacing=(0.5, 2, 3.25), origin=(10, -20, 5.5)):
    """Axes that lie askew, and none along its own direction."""
    a, b = np.deg2rad(12), np.deg2rad(-7)
    z = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
    x = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    direction = z @ x @ np.array([[0, 0, -1], [1, 0, 0], [0, -1, 0]])
    image.SetSpacing(spacing)
    image.SetOrigin(origin)
    image.SetDirection(direction.ravel())
    return image


def place(scan, image):
    """What nibabel says of the NIfTI file of the same image."""
    path = folder / "same.nii"
    sitk.WriteImage(image, str(path))
    file = nib.load(path)
    tensors[f"affine.{scan}"] = np.ascontiguousarray(file.affine[:3])
    tensors[f"spacing.{scan}"] = nib.affines.voxel_sizes(file.affine)
    canonical = nib.as_closest_canonical(file)
    values = np.asarray(canonical.get_fdata(), np.float32).reshape(canonical.shape[:3] + (-1,))
    tensors[f"canonical.{scan}"] = np.ascontiguousarray(np.moveaxis(values, 3, 0))
    tensors[f"canonical_affine.{scan}"] = np.ascontiguousarray(canonical.affine[:3])


def simpleitk_files():
    for dtype, kind in TYPES.items():
        image = turned(sitk.GetImageFromArray(numbers(dtype, (3, 4, 5))))
        assert image.GetPixelID() == kind
        scan = f"sitk_{np.dtype(dtype).name}"
        tensors[f"values.{scan}"] = sitk.GetArrayFromImage(image).T[None].astype(np.float32)
        place(scan, image)
        for ending in ("nrrd", "mha"):
            for packed in (False, True):
                sitk.WriteImage(image, str(folder / f"{scan}{'_packed' if packed else ''}.{ending}"), packed)
        keep(scan, [f"{scan}{part}.{ending}" for ending in ("nrrd", "mha") for part in ("", "_packed")], dtype == "i2")
    detached = turned(sitk.GetImageFromArray(numbers("i2", (2, 3, 4))))
    tensors["values.detached"] = sitk.GetArrayFromImage(detached).T[None].astype(np.float32)
    place("detached", detached)
    for name, packed in (("plain", False), ("packed", True)):
        for ending in ("nhdr", "mhd"):
            sitk.WriteImage(detached, str(folder / f"{name}_{ending}.{ending}"), packed)
    files = ("plain_nhdr.nhdr", "plain_nhdr.raw", "packed_nhdr.nhdr", "packed_nhdr.raw.gz", "plain_mhd.mhd",
             "plain_mhd.raw", "packed_mhd.mhd", "packed_mhd.zraw")
    keep("detached", files)
    vector = turned(sitk.GetImageFromArray(numbers("f4", (3, 4, 5, 3)), isVector=True))
    tensors["values.vector"] = np.ascontiguousarray(np.transpose(sitk.GetArrayFromImage(vector), (3, 2, 1, 0)))
    place("vector", sitk.VectorIndexSelectionCast(vector, 0))
    del tensors["canonical.vector"]
    frames = sitk.JoinSeries([turned(sitk.GetImageFromArray(numbers("i2", (3, 4, 5)))) for _ in range(2)], 0, 1.5)
    tensors["values.frames"] = np.ascontiguousarray(sitk.GetArrayFromImage(frames).transpose(0, 3, 2, 1), np.float32)
    place("frames", frames)
    flat = sitk.GetImageFromArray(numbers("u1", (4, 5)))
    flat.SetSpacing((0.5, 2))
    tensors["values.flat"] = sitk.GetArrayFromImage(flat).T[None, None].astype(np.float32)
    for scan, image in (("vector", vector), ("frames", frames), ("flat", flat)):
        for ending in ("nrrd", "mha"):
            sitk.WriteImage(image, str(folder / f"{scan}.{ending}"))
        keep(scan, [f"{scan}.nrrd", f"{scan}.mha"], scan == "vector")


def pynrrd_files():
    """Byte orders, spaces and places of the channels that ITK does not write."""
    for order, word in (("<", "little"), (">", "big")):
        data = numbers(f"{order}i2", (5, 4, 3))
        scan = f"pynrrd_{word}"
        for encoding in ("raw", "gzip"):
            nrrd.write(str(folder / f"{scan}_{encoding}.nrrd"), data, {"encoding": encoding, "spacings": [0.5, 2, 3]})
            read, header = nrrd.read(str(folder / f"{scan}_{encoding}.nrrd"))
            assert header["endian"] == word and (read == data).all()
        tensors[f"values.{scan}"] = data[None].astype(np.float32)
        tensors[f"spacing.{scan}"] = np.array([0.5, 2, 3])
        keep(scan, [f"{scan}_raw.nrrd", f"{scan}_gzip.nrrd"], word == "big")
    matrix = np.array([[0, 0, -3], [0.5, 0.1, 0], [0, -2, 0.2]])  # rows: where x, y, z point to
    data = numbers("<f4", (5, 4, 3))
    for space, sign in (("right-anterior-superior", (1, 1, 1)), ("LAS", (-1, 1, 1)),
                        ("left-posterior-superior", (-1, -1, 1))):
        scan = f"space_{space[:3].lower()}"
        nrrd.write(str(folder / f"{scan}.nrrd"), data, {
            "space": space, "space directions": matrix, "space origin": [1.0, 2.0, -3.0],
            "kinds": ["domain"] * 3, "encoding": "raw", "a key": "a value: with a colon"})
        affine = np.eye(4)
        affine[:3] = np.diag(sign) @ np.column_stack([matrix.T, [1, 2, -3]])
        tensors[f"values.{scan}"] = data[None]
        tensors[f"affine.{scan}"] = affine[:3].copy()
        tensors[f"spacing.{scan}"] = nib.affines.voxel_sizes(affine)
        canonical = nib.as_closest_canonical(nib.Nifti1Image(data, affine))
        tensors[f"canonical.{scan}"] = np.ascontiguousarray(canonical.get_fdata(), np.float32)[None]
        tensors[f"canonical_affine.{scan}"] = np.ascontiguousarray(canonical.affine[:3])
        keep(scan, [f"{scan}.nrrd"])
    for axis, name in ((0, "first"), (1, "second"), (3, "last")):
        shape = [5, 4, 3]
        shape.insert(axis, 2)
        data = numbers("<u2", shape)
        directions = np.insert(matrix, axis, np.nan, axis=0)
        kinds = ["domain"] * 3
        kinds.insert(axis, "list")
        scan = f"list_{name}"
        nrrd.write(str(folder / f"{scan}.nrrd"), data, {
            "space": "left-posterior-superior", "space directions": directions, "space origin": [0, 0, 0],
            "kinds": kinds, "encoding": "gzip"})
        tensors[f"values.{scan}"] = np.ascontiguousarray(np.moveaxis(data, axis, 0), np.float32)
        keep(scan, [f"{scan}.nrrd"], axis == 0)


simpleitk_files()
pynrrd_files()
save_file({key: np.ascontiguousarray(value) for key, value in tensors.items()},
          ROOT / "tests" / "golden" / "data_scans.safetensors")
