// What NIfTI, NRRD and MetaImage share: up to three axes in space and channels, x first, with a
// place in the patient.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/data/volume/stored_volume.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

struct ScanOptions {
  // Flip and swap axes to the closest RAS, as nibabel's as_closest_canonical does, without
  // resampling. A file that names no orientation stays as it is.
  bool canonical = false;
  std::optional<int64_t> frame = {};                   // of a file of several: only this one
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;  // see check_unpacked_bytes
};

struct ScanGrid {
  std::vector<int64_t> sizes;    // of the axes in space, one to three
  std::vector<int64_t> strides;  // of the same, in elements
  int64_t channels = 1;          // frames or components of a vector
  int64_t channel_stride = 0;
  Affine affine = {};
  bool has_orientation = false;               // whether the file says where the axes point to
  std::array<double, 3> spacing = {1, 1, 1};  // along x, y, z
};

// Sizes, strides and geometry of `stored`: [C, D, H, W] = [C, x, y, z], or [C, 1, x, y] of fewer
// than three axes, which have no orientation. Throws DataError: a frame that is not there.
void lay_out(const ScanGrid& grid, const ScanOptions& options, StoredVolume& stored);

}  // namespace fovea::data
