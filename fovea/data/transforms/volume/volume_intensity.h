// Changes of values, voxel by voxel; the mask stays. Every function reads the whole item and
// leaves its values in order in a buffer of the scratch.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fovea/core/philox.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// value + offset; one offset for all channels, or one for each.
void shift_intensity(VolumeItem& item, std::span<const float> offsets, VolumeScratch& scratch);

// value * factor; one factor for all channels, or one for each.
void multiply_intensity(VolumeItem& item, std::span<const float> factors, VolumeScratch& scratch);

// (value - subtrahend) * factor + offset, cut to [least, largest].
struct ValueWindow {
  float subtrahend = 0;
  float factor = 1;
  float offset = 0;
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
};
void apply_window(float* values, int64_t count, const ValueWindow& window);

// f(values of a channel, their number, the channel), values in order and free to be changed.
template <class F>
void for_channels(VolumeItem& item, VolumeScratch& scratch, F&& f) {
  float* values = own_values(item, scratch);
  const int64_t voxels = voxels_of(item.values.size);
  for (int64_t c = 0; c < item.values.channels; ++c) f(values + c * voxels, voxels, c);
}

// One draw for all channels, or one for each, from [-r, r) or [least, largest), plus `add`.
std::span<const float> draw_values(const std::vector<double>& range, double add, bool channel_wise,
                                   int64_t channels, RandomStream& random, VolumeScratch& scratch);

}  // namespace fovea::data
