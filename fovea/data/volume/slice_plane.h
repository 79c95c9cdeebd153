// A plane through voxels, and how it lies in a picture.
#pragma once

#include <array>
#include <cstdint>

namespace fovea::data {

// What the first and the second axis of a plane are in a picture.
enum class SliceLayout {
  kMatrix,     // first axis downwards, second to the right: images, DICOM, arrays of slices
  kCartesian,  // first axis to the right, second upwards: [x, y, z], as NIfTI stores it
};

// The voxels with `place` on `axis` (0: depth, 1: height, 2: width).
struct SlicePlane {
  int axis = 0;
  int64_t place = 0;
  SliceLayout layout = SliceLayout::kMatrix;

  // The axis that runs along the rows' numbers, and the one that runs along the columns'.
  int row_axis() const {
    return layout == SliceLayout::kMatrix ? (axis == 0 ? 1 : 0) : (axis == 2 ? 1 : 2);
  }
  int column_axis() const { return 3 - axis - row_axis(); }
  bool is_upwards() const { return layout == SliceLayout::kCartesian; }
};

}  // namespace fovea::data
