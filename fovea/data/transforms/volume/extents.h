// Sizes of volumes and boxes in them, as several transforms reckon with them.
#pragma once

#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// That of one axis, where one number serves all.
int64_t of_axis(const std::vector<int64_t>& values, size_t axis);

// Sizes that come out of those of `in`. An axis with 0 or less is left alone.
ExtentRange at_most(const std::vector<int64_t>& size, const ExtentRange& in);
ExtentRange at_least(const std::vector<int64_t>& size, const ExtentRange& in);
ExtentRange exactly(const std::vector<int64_t>& size, const ExtentRange& in);

// A box of a volume; it may reach beyond it, where voxels are added.
struct VoxelBox {
  Extent start = {};
  Extent size = {};
};

// MONAI's middle: volume / 2 - size / 2, both rounded down.
VoxelBox center_box(const Extent& volume, const Extent& size);

}  // namespace fovea::data
