"""Golden files of DICOM: compressed, coloured, big endian and of several frames, and what pydicom reads out of them.

Usage: python tools/golden/make_dicom.py
(numpy 2.4.6, Pillow 13.0.0, pydicom 3.0.2, pylibjpeg 2.1.0 with -libjpeg 2.5.0 and -openjpeg 2.6.0, pyjpegls 1.5.1,
python-gdcm 3.2.6, imagecodecs 2026.3.6, safetensors 0.8.0)
Writes tests/golden/data_dicom.safetensors. Keys: "file.NAME" the bytes of a file; "values.NAME" [channels, frames,
rows, columns] float32: pydicom's pixel_array, after its colour table and its rescaling. And starting inputs of
tests/fuzz/corpus/dicom_fuzz/.
"""

import io
import pathlib
import tempfile

import gdcm
import imagecodecs
import numpy as np
import pydicom
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels import apply_color_lut, apply_modality_lut
from pydicom.sequence import Sequence
from pydicom.uid import (CTImageStorage, EnhancedCTImageStorage, ExplicitVRBigEndian, ExplicitVRLittleEndian,
                         ImplicitVRLittleEndian, JPEG2000, JPEG2000Lossless, JPEGLSLossless, JPEGLSNearLossless,
                         RLELossless)
from safetensors.numpy import save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus" / "dicom_fuzz"
rng = np.random.default_rng(5)
tensors = {}
folder = pathlib.Path(tempfile.mkdtemp())


def image(pixels, stored=None, photometric="MONOCHROME2", syntax=ExplicitVRLittleEndian, **changes):
    """pixels: [rows, columns], [frames, rows, columns] or [..., 3]."""
    ds = Dataset()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = syntax
    ds.file_meta.MediaStorageSOPClassUID = CTImageStorage
    ds.file_meta.MediaStorageSOPInstanceUID = "1.2.3.4"
    ds.SOPClassUID, ds.SOPInstanceUID, ds.SeriesInstanceUID = CTImageStorage, "1.2.3.4", "1.2.3"
    color = photometric[:3] in ("RGB", "YBR")
    bits = 8 * pixels.dtype.itemsize
    ds.SamplesPerPixel = 3 if color else 1
    ds.PhotometricInterpretation = photometric
    if color:
        ds.PlanarConfiguration = 0
    sides = pixels.shape[:-1] if color else pixels.shape
    ds.Rows, ds.Columns = sides[-2:]
    if len(sides) == 3:
        ds.NumberOfFrames = sides[0]
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = bits, stored or bits, (stored or bits) - 1
    ds.PixelRepresentation = int(pixels.dtype.kind == "i")
    if not color and "PALETTE" not in photometric:
        ds.ImagePositionPatient, ds.ImageOrientationPatient = [0, 0, 0], [1, 0, 0, 0, 1, 0]
        ds.PixelSpacing = [0.75, 0.5]
    for key, value in changes.items():
        setattr(ds, key, value)
    order = ">" if syntax == ExplicitVRBigEndian else "<"
    ds.PixelData = pixels.astype(pixels.dtype.newbyteorder(order)).tobytes()
    ds["PixelData"].VR = "OB" if bits == 8 and order == "<" else "OW"
    return ds


def bytes_of(ds):
    stream = io.BytesIO()
    pydicom.dcmwrite(stream, ds, enforce_file_format=True)
    return stream.getvalue()


def keep(name, data, corpus=False, values=None):
    tensors[f"file.{name}"] = np.frombuffer(data, np.uint8).copy()
    if corpus:
        (CORPUS / name).write_bytes(data)
    ds = pydicom.dcmread(io.BytesIO(data))
    if values is None:
        values = ds.pixel_array
        if ds.PhotometricInterpretation == "PALETTE COLOR":
            values = apply_color_lut(values, ds)
        values = apply_modality_lut(values, ds)
    if values.ndim == 2 or (values.ndim == 3 and values.shape[-1] == 3 and int(ds.get("NumberOfFrames", 1)) == 1):
        values = values[None]
    if name.startswith("enhanced_"):  # the same as enhanced
        return
    values = np.moveaxis(values, -1, 0) if values.ndim == 4 else values[None]
    tensors[f"values.{name}"] = np.ascontiguousarray(values, np.float32)


def with_gdcm(ds, syntax):
    (folder / "in.dcm").write_bytes(bytes_of(ds))
    reader = gdcm.ImageReader()
    reader.SetFileName(str(folder / "in.dcm"))
    assert reader.Read()
    change = gdcm.ImageChangeTransferSyntax()
    change.SetTransferSyntax(gdcm.TransferSyntax(syntax))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer = gdcm.ImageWriter()
    writer.SetFileName(str(folder / "out.dcm"))
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    assert writer.Write()
    return (folder / "out.dcm").read_bytes()


def smooth(shape, low, high, dtype):
    grids = np.meshgrid(*[np.arange(size) / size for size in shape], indexing="ij")
    values = sum(np.sin(5 * (i + 1) * grid + i) for i, grid in enumerate(grids)) / len(shape)
    return ((values + 1) / 2 * (high - low) + low + rng.uniform(-3, 3, shape)).clip(low, high).astype(dtype)


def gray_files():
    twelve = smooth((40, 36), 0, 4095, np.uint16)
    signed = smooth((40, 36), -1000, 3000, np.int16)
    byte = smooth((16, 24), 0, 255, np.uint8)
    rescale = {"RescaleSlope": "1.5", "RescaleIntercept": "-1024"}
    for name, syntax in (("jpeg_lossless", gdcm.TransferSyntax.JPEGLosslessProcess14),
                         ("jpeg_lossless_sv1", gdcm.TransferSyntax.JPEGLosslessProcess14_1)):
        keep(name, with_gdcm(image(twelve, 12, **rescale), syntax), corpus=name != "jpeg_lossless")
    keep("jpeg_baseline", with_gdcm(image(byte), gdcm.TransferSyntax.JPEGBaselineProcess1), corpus=True)
    extended = image(twelve, 12, **rescale)
    stream = imagecodecs.jpeg_encode(twelve, level=90, bitspersample=12)
    extended.PixelData = pydicom.encaps.encapsulate([stream])
    extended["PixelData"].VR = "OB"
    extended["PixelData"].is_undefined_length = True
    extended.file_meta.TransferSyntaxUID = pydicom.uid.JPEGExtended12Bit
    keep("jpeg_extended", bytes_of(extended), corpus=True)
    keep("jpeg_lossless_signed", with_gdcm(image(signed, 16, **rescale), gdcm.TransferSyntax.JPEGLosslessProcess14_1))
    for name, syntax, options in (("jpeg_ls", JPEGLSLossless, {}), ("jpeg_ls_near", JPEGLSNearLossless, {"jls_error": 2}),
                                  ("jpeg2000", JPEG2000Lossless, {}), ("jpeg2000_lossy", JPEG2000, {"j2k_cr": [4]}),
                                  ("rle", RLELossless, {})):
        ds = image(twelve, 12, **rescale)
        ds.compress(syntax, generate_instance_uid=False, **options)
        keep(name, bytes_of(ds), corpus=name in ("jpeg_ls", "jpeg2000"))
    for name, syntax in (("jpeg_ls_signed", JPEGLSLossless), ("jpeg2000_signed", JPEG2000Lossless)):
        ds = image(signed, 16, **rescale)
        ds.compress(syntax, generate_instance_uid=False)
        keep(name, bytes_of(ds))
    keep("big_endian", bytes_of(image(signed, 16, syntax=ExplicitVRBigEndian, **rescale)), corpus=True)
    odd = np.stack([smooth((3, 5), 0, 255, np.uint8) for _ in range(3)], -1)
    keep("big_endian_odd", bytes_of(image(odd, photometric="RGB", syntax=ExplicitVRBigEndian)))
    keep("big_endian_bytes", bytes_of(image(byte, syntax=ExplicitVRBigEndian)))


def color_files():
    rgb = np.stack([smooth((32, 40), 0, 255, np.uint8) for _ in range(3)], -1)
    keep("rgb", bytes_of(image(rgb, photometric="RGB")))
    planes = image(rgb, photometric="RGB")
    planes.PlanarConfiguration = 1
    planes.PixelData = np.moveaxis(rgb, -1, 0).tobytes()
    keep("rgb_planes", bytes_of(planes))
    keep("ybr_full", bytes_of(image(rgb, photometric="YBR_FULL")), corpus=True)
    half = image(rgb, photometric="YBR_FULL_422")
    pairs = rgb.reshape(32, 20, 2, 3)
    half.PixelData = np.concatenate([pairs[..., 0], pairs[:, :, 0, 1:]], -1).tobytes()
    keep("ybr_full_422", bytes_of(half))
    for name, syntax in (("rle_rgb", RLELossless), ("jpeg2000_rgb", JPEG2000Lossless), ("jpeg_ls_rgb", JPEGLSLossless)):
        ds = image(rgb, photometric="RGB")
        ds.compress(syntax, generate_instance_uid=False)
        keep(name, bytes_of(ds), corpus=name == "rle_rgb")
    keep("jpeg_baseline_color", with_gdcm(image(rgb, photometric="RGB"), gdcm.TransferSyntax.JPEGBaselineProcess1), True)
    for name, half in (("444", 0), ("422", 1), ("420", 2)):
        stream = io.BytesIO()
        Image.fromarray(rgb).save(stream, "JPEG", quality=90, subsampling=half)
        ds = image(rgb, photometric="YBR_FULL" if half == 0 else "YBR_FULL_422")
        ds.PixelData = pydicom.encaps.encapsulate([stream.getvalue()])
        ds["PixelData"].VR = "OB"
        ds["PixelData"].is_undefined_length = True
        ds.file_meta.TransferSyntaxUID = pydicom.uid.JPEGBaseline8Bit
        keep(f"jpeg_baseline_{name}", bytes_of(ds), corpus=half == 1)
    keep("jpeg_lossless_rgb", with_gdcm(image(rgb, photometric="RGB"), gdcm.TransferSyntax.JPEGLosslessProcess14_1))
    index = smooth((6, 8), 0, 40, np.uint8)
    for bits, dtype in ((8, np.uint8), (16, np.uint16)):
        tables = {f"{color}PaletteColorLookupTable{part}": value
                  for i, color in enumerate(("Red", "Green", "Blue"))
                  for part, value in (("Descriptor", [32, 4, bits]),
                                      ("Data", ((np.arange(32) * (7 + i)) * (1 if bits == 8 else 257)
                                                % 2 ** bits).astype(dtype).tobytes()))}
        keep(f"palette_{bits}", bytes_of(image(index, photometric="PALETTE COLOR", **tables)), corpus=bits == 8)


def frame_groups(places, slopes):
    def measures(spacing):
        ds = Dataset()
        ds.PixelSpacing, ds.SliceThickness = spacing, "2"
        return ds
    shared, frames = Dataset(), []
    shared.PixelMeasuresSequence = Sequence([measures([0.75, 0.5])])
    orientation = Dataset()
    orientation.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    shared.PlaneOrientationSequence = Sequence([orientation])
    for place, slope in zip(places, slopes):
        frame, position, scale = Dataset(), Dataset(), Dataset()
        position.ImagePositionPatient = [1, 2, place]
        scale.RescaleIntercept, scale.RescaleSlope, scale.RescaleType = "-1024", str(slope), "HU"
        frame.PlanePositionSequence = Sequence([position])
        frame.PixelValueTransformationSequence = Sequence([scale])
        frames.append(frame)
    return {"SharedFunctionalGroupsSequence": Sequence([shared]), "PerFrameFunctionalGroupsSequence": Sequence(frames),
            "SOPClassUID": EnhancedCTImageStorage}


def frame_files():
    pixels = smooth((4, 36, 33), 0, 4095, np.uint16)
    places, slopes = [5, -2.5, 2.5, 0], [1, 1.25, 1.5, 1.75]
    values = pixels * np.array(slopes)[:, None, None] - 1024
    values = values[np.argsort(places)]
    def enhanced(**changes):
        ds = image(pixels, 12, **frame_groups(places, slopes), **changes)
        for key in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing"):
            delattr(ds, key)
        return ds
    keep("enhanced", bytes_of(enhanced()), True, values)
    keep("enhanced_implicit", bytes_of(enhanced(syntax=ImplicitVRLittleEndian)), False, values)
    undefined = enhanced()
    for key in ("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence"):
        undefined[key].is_undefined_length = True
        for item in undefined[key].value:
            item.is_undefined_length_sequence_item = True
    keep("enhanced_undefined", bytes_of(undefined), True, values)
    for name, syntax in (("enhanced_jpeg2000", JPEG2000Lossless), ("enhanced_rle", RLELossless)):
        ds = enhanced()
        ds.compress(syntax, generate_instance_uid=False)
        keep(name, bytes_of(ds), name == "enhanced_rle", values)
        frames = pydicom.encaps.generate_frames(ds.PixelData, number_of_frames=4)
        ds.PixelData = pydicom.encaps.encapsulate(list(frames)[:3])
        tensors[f"file.{name}_short"] = np.frombuffer(bytes_of(ds), np.uint8).copy()
    short = enhanced()
    short.PixelData = short.PixelData[:-36 * 33 * 2]
    tensors["file.enhanced_short"] = np.frombuffer(bytes_of(short), np.uint8).copy()
    cine = image(np.stack([smooth((8, 8, 3), 0, 255, np.uint8) for _ in range(3)]), photometric="RGB")
    keep("cine", bytes_of(cine))
    fragments = image(smooth((8, 64, 64), 0, 4095, np.uint16)[:2], 12)
    for key in ("ImagePositionPatient", "ImageOrientationPatient"):
        delattr(fragments, key)
    fragments.compress(JPEG2000Lossless, generate_instance_uid=False)
    frames = list(pydicom.encaps.generate_frames(fragments.PixelData, number_of_frames=2))
    for name, has_table in (("fragments", True), ("fragments_no_table", False)):
        fragments.PixelData = pydicom.encaps.encapsulate(frames, fragments_per_frame=3, has_bot=has_table)
        keep(name, bytes_of(fragments), name == "fragments_no_table")


gray_files()
color_files()
frame_files()
save_file(tensors, ROOT / "tests" / "golden" / "data_dicom.safetensors")
