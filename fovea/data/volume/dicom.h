// DICOM slices and series of single-frame, monochrome images: uncompressed little endian (explicit
// and implicit VR) and RLE Lossless. Other transfer syntaxes are refused by name.
// Format: DICOM PS3.3 (image modules), PS3.5 (encoding, annex G: RLE), PS3.10 (files).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/scalar_type.h"
#include "fovea/data/volume/stored_volume.h"
#include "fovea/data/volume/volume_file.h"

namespace fovea::data {

struct DicomSlice {
  std::string source;
  std::string series_uid;
  int64_t instance_number = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  ScalarType type = ScalarType::kUint16;  // of the bits that are allocated
  int64_t bits_stored = 16;               // the lowest ones of each value
  double slope = 1;                       // RescaleSlope, RescaleIntercept
  double intercept = 0;
  std::array<double, 2> pixel_spacing = {1, 1};        // between rows, between columns; millimetres
  double slice_thickness = 0;                          // 0: not stated
  std::optional<std::array<double, 3>> position = {};  // ImagePositionPatient
  std::optional<std::array<double, 6>> orientation = {};  // ImageOrientationPatient
  std::vector<uint8_t> pixels;  // [rows, columns], little endian, decompressed
};

// Throws DataError naming `source`: not DICOM, damaged, no pixels, color, several frames, another
// transfer syntax (naming it), sizes that do not fit the pixels.
DicomSlice parse_dicom(std::span<const uint8_t> bytes, const std::string& source);

// Of a file of `file_bytes` of which `start` is the beginning: all but `pixels`. Throws also where
// the file is too short for them.
DicomSlice parse_dicom_header(std::span<const uint8_t> start, uint64_t file_bytes,
                              const std::string& source);

// Reads one file.
DicomSlice read_dicom(const std::string& path);
// Reads no more of it than comes before the pixels, or little more.
DicomSlice read_dicom_header(const std::string& path);

struct DicomOptions {
  std::string series_uid = {};  // which series of the folder; empty: the only one
  // [1, x, y, z] in the closest RAS order, as read_nifti gives what dcm2niix makes of the series.
  bool canonical = false;
};

// The slices of a folder (or one file) as [1, slices, rows, columns], sorted by position along the
// normal of the slices, scaled by each slice's own slope and intercept. Files that are not DICOM
// are passed over where their names end in neither .dcm, .dicom nor .ima. Spacing along D is the
// distance of neighbours. Throws DataError: no slices, several series, slices that differ in size,
// direction or spacing, two at one place, gaps that differ by more than 1 %; with `canonical`, a
// slice that does not say how it lies in the patient.
StoredVolume read_dicom_series(const std::string& path, const DicomOptions& options = {});
// The same by the headers of the slices, which are read when it is asked what the series is.
std::unique_ptr<VolumeFile> open_dicom_series(const std::string& path,
                                              const DicomOptions& options = {});

// Whether slices lie right in `folder`: by the names of its files, or by what the first few without
// a known ending begin with.
bool holds_dicom(const std::string& folder);

}  // namespace fovea::data
