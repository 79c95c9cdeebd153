#include "fovea/data/transforms/volume/spatial_pad.h"

#include <algorithm>

#include "fovea/data/transforms/volume/volume_moves.h"

namespace fovea::data {

void SpatialPadConfig::apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const {
  const Extent wanted = size_or(spatial_size, item.values.size);
  Padding padding;
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t missing = std::max<int64_t>(wanted[axis] - item.values.size[axis], 0);
    padding.before[axis] = method == "symmetric" ? missing / 2 : 0;
    padding.after[axis] = missing - padding.before[axis];
  }
  padding.mode = volume_pad_mode_from_name(mode);
  padding.value = static_cast<float>(value);
  padding.mask_value = static_cast<int32_t>(mask_value);
  pad(item, padding, scratch);
}

}  // namespace fovea::data
