// NIfTI-1 and NIfTI-2, single files (.nii, .nii.gz), of either byte order.
//
// Axes keep nibabel's order: the array [x, y, z] becomes [C, D, H, W] = [C, x, y, z], so that
// volume[c, i, j, k] is get_fdata()[i, j, k] or, in 4-D files, get_fdata()[i, j, k, c]. A 2-D file
// [x, y] becomes [1, 1, x, y]. Format: nifti.nimh.nih.gov/nifti-1 and nifti-2.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/scalar_type.h"
#include "fovea/data/volume/stored_volume.h"
#include "fovea/data/volume/volume.h"
#include "fovea/files/input_stream.h"

namespace fovea::data {

inline constexpr uint64_t kNiftiHeaderBytes = 540;  // of version 2, the longer one

struct NiftiHeader {
  int version = 1;
  std::endian order = std::endian::little;
  std::vector<int64_t> shape;  // 1 to 7 dimensions, the first one fastest
  ScalarType type = ScalarType::kUint8;
  uint64_t data_offset = 0;
  uint64_t data_bytes = 0;
  uint64_t num_values() const { return data_bytes / static_cast<uint64_t>(bytes_of(type)); }
  double slope = 1;  // scl_slope and scl_inter; 1 and 0 where the file says "no scaling"
  double intercept = 0;
  Affine affine = {};                         // sform, else qform, else from the voxel sizes alone
  bool has_orientation = false;               // whether it came from sform or qform
  std::array<double, 3> spacing = {1, 1, 1};  // along x, y, z
};

// Throws DataError naming `source`: not a single-file NIfTI, a type of number that is not read
// (complex, RGB, 128 bits), sizes below 1 or whose product is too large, a data offset within the
// header, a scaling that is not a number.
NiftiHeader parse_nifti_header(std::span<const uint8_t> bytes, const std::string& source);

// The header alone, without reading the data; `stream` stands behind it then.
NiftiHeader read_nifti_header(InputStream& stream);
NiftiHeader read_nifti_header(const std::string& path);

// NIfTI-1, little endian, sform: the volume as float32, the labels as int16 (int32 where they do
// not fit). Compressed where the path ends in .gz. The number equal to class c is c + label_offset;
// class -1 is written as ignore_value. Atomic. Throws Error.
void write_nifti(const std::string& path, const Volume& volume, const Affine& affine);
struct NiftiLabelOptions {
  int64_t label_offset = 0;
  int64_t ignore_value = 0;
};
void write_nifti(const std::string& path, const LabelMap& labels, const Affine& affine,
                 const NiftiLabelOptions& options = {});

}  // namespace fovea::data
