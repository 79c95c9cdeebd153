// A volume whose values somebody else owns.
#pragma once

#include <cstdint>

#include "fovea/data/volume/volume.h"

namespace fovea::data {

struct VolumeValues {
  const float* values = nullptr;  // [C, D, H, W]
  int64_t channels = 0;
  VolumeSize size;

  VolumeValues() = default;
  VolumeValues(const float* first, int64_t num_channels, const VolumeSize& sides)
      : values(first), channels(num_channels), size(sides) {}
  explicit VolumeValues(const Volume& volume)
      : VolumeValues(volume.values.data(), volume.channels, volume.size) {}

  const float* channel(int64_t c) const { return values + c * size.voxels(); }
};

}  // namespace fovea::data
