"""Golden files of one patient in two formats: DICOM series, and what dcm2niix makes of them.

python tools/golden/make_axes.py   (numpy 2.4.6, pydicom 3.0.2, nibabel 5.4.2, dcm2niix 1.0.20260724, safetensors 0.8.0)

tests/golden/data_axes.safetensors, for each KIND of axial, coronal and oblique: file.KIND.N [bytes], slice N of a series of 5 of 4 x 3
pixels; nifti.KIND [bytes], the file of dcm2niix; canonical.KIND [x, y, z], its voxels as nibabel's as_closest_canonical turns them;
spacing.KIND [3].
"""

import io
import pathlib
import subprocess
import tempfile

import nibabel as nib
import numpy as np
import pydicom
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
KINDS = {"axial": ((1, 0, 0), (0, 1, 0)), "coronal": ((1, 0, 0), (0, 0, -1)),
         "oblique": ((0.96, 0.28, 0), (-0.28 * 0.8, 0.96 * 0.8, 0.6))}
rng = np.random.default_rng(5)
tensors = {}


def slice_of(kind, number, pixels):
    row, column = (np.array(direction, float) for direction in KINDS[kind])
    position = np.array([-31.5, 12.25, 40.0]) + 3.5 * number * np.cross(row, column)
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CTImageStorage
    meta.MediaStorageSOPInstanceUID = f"1.2.826.0.1.3680043.8.498.{number + 1}"
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    ds = Dataset()
    ds.file_meta = meta
    ds.SOPClassUID = CTImageStorage
    ds.SOPInstanceUID = meta.MediaStorageSOPInstanceUID
    ds.StudyInstanceUID = "1.2.826.0.1.3680043.8.498.77"
    ds.SeriesInstanceUID = "1.2.826.0.1.3680043.8.498.99"
    ds.Modality, ds.Manufacturer, ds.PatientID, ds.SeriesNumber = "CT", "none", "0", 1
    ds.InstanceNumber = number + 1
    ds.ImagePositionPatient = [round(float(x), 6) for x in position]
    ds.ImageOrientationPatient = [float(x) for x in (*row, *column)]
    ds.PixelSpacing, ds.SliceThickness = [0.75, 0.5], 3.5
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
    ds.Rows, ds.Columns = pixels.shape
    ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 16, 15, 1
    ds.RescaleIntercept, ds.RescaleSlope = 0, 1
    ds.PixelData = pixels.tobytes()
    stream = io.BytesIO()
    pydicom.dcmwrite(stream, ds, enforce_file_format=True)
    return stream.getvalue()


for kind in KINDS:
    with tempfile.TemporaryDirectory() as folder:
        series = pathlib.Path(folder) / "series"
        series.mkdir()
        for number in range(5):
            data = slice_of(kind, number, rng.integers(-1000, 1000, (4, 3)).astype(np.int16))
            (series / f"{(3 * number) % 5}.dcm").write_bytes(data)
            tensors[f"file.{kind}.{number}"] = np.frombuffer(data, np.uint8).copy()
        subprocess.run(["dcm2niix", "-z", "n", "-b", "n", "-f", "out", "-o", folder, series], check=True)
        path = pathlib.Path(folder) / "out.nii"
        tensors[f"nifti.{kind}"] = np.frombuffer(path.read_bytes(), np.uint8).copy()
        image = nib.as_closest_canonical(nib.load(path))
        tensors[f"canonical.{kind}"] = np.ascontiguousarray(image.get_fdata(), np.float32)
        tensors[f"spacing.{kind}"] = nib.affines.voxel_sizes(image.affine)
        print(kind, nib.aff2axcodes(nib.load(path).affine), image.shape)

save_file(tensors, ROOT / "tests" / "golden" / "data_axes.safetensors",
          metadata={"numpy": np.__version__, "nibabel": nib.__version__, "pydicom": pydicom.__version__})
