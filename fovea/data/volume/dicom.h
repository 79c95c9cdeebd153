// DICOM slices and series, in files of one frame or several, gray or coloured: uncompressed and RLE
// by themselves, JPEG, JPEG-LS and JPEG 2000 where GDCM is there. Other transfer syntaxes are
// refused by name.
// Format: DICOM PS3.3 (image modules), PS3.5 (encoding), PS3.10 (files).
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
  std::string source;  // of a file of several frames with the frame's number
  std::string series_uid;
  std::string syntax;  // of the transfer
  int64_t instance_number = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t samples = 1;                    // 3: red, green, blue
  int64_t frames = 1;                     // of the file
  ScalarType type = ScalarType::kUint16;  // of the bits that are allocated
  int64_t bits_stored = 16;               // the lowest ones of each value
  double slope = 1;                       // RescaleSlope, RescaleIntercept
  double intercept = 0;
  std::array<double, 2> pixel_spacing = {1, 1};        // between rows, between columns; millimetres
  double slice_thickness = 0;                          // 0: not stated
  double frame_spacing = 0;                            // SpacingBetweenSlices; 0: not stated
  std::optional<std::array<double, 3>> position = {};  // ImagePositionPatient
  std::optional<std::array<double, 6>> orientation = {};  // ImageOrientationPatient
  std::vector<uint8_t> pixels;                            // [rows, columns, samples], little endian
};

// One for each frame. Throws DataError naming `source`: not DICOM, damaged, no pixels, another
// transfer syntax (naming it), colours or bits that are not read, sizes that do not fit the pixels,
// frames that are missing.
std::vector<DicomSlice> parse_dicom(std::span<const uint8_t> bytes, const std::string& source);

// Of a file of `file_bytes` of which `start` is the beginning: all but `pixels`. Throws also where
// the file is too short for them.
std::vector<DicomSlice> parse_dicom_header(std::span<const uint8_t> start, uint64_t file_bytes,
                                           const std::string& source);

// Reads one file.
std::vector<DicomSlice> read_dicom(const std::string& path);
// Reads no more of it than comes before the pixels, or little more.
std::vector<DicomSlice> read_dicom_header(const std::string& path);

struct DicomOptions {
  std::string series_uid = {};  // which series of the folder; empty: the only one
  // [1, x, y, z] in the closest RAS order, as read_nifti gives what dcm2niix makes of the series.
  bool canonical = false;
};

// The slices of a folder (or one file) as [samples, slices, rows, columns], sorted by position
// along the normal of the slices, scaled by each slice's own slope and intercept; frames of one
// file that have no place in the patient in its order. Files that are not DICOM are passed over
// where their names end in neither .dcm, .dicom nor .ima. Spacing along D is the distance of
// neighbours. Throws DataError: no slices, several series, slices that differ in size, direction,
// spacing, colours or compression, two at one place, gaps that differ by more than 1 %; with
// `canonical`, a slice that does not say how it lies in the patient.
StoredVolume read_dicom_series(const std::string& path, const DicomOptions& options = {});
// The same by the headers of the slices, which are read when it is asked what the series is.
std::unique_ptr<VolumeFile> open_dicom_series(const std::string& path,
                                              const DicomOptions& options = {});

// Whether slices lie right in `folder`: by the names of its files, or by what the first few without
// a known ending begin with.
bool holds_dicom(const std::string& folder);

}  // namespace fovea::data
