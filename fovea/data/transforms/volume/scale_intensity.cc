#include "fovea/data/transforms/volume/scale_intensity.h"

#include "fovea/core/simd.h"
#include "fovea/data/transforms/volume/volume_intensity.h"

namespace fovea::data {
namespace {

struct Limits {
  float least;
  float largest;
};

FOVEA_SIMD Limits range_of(const float* values, int64_t count) {
  float least = values[0];
  float largest = values[0];
#pragma omp simd reduction(min : least) reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    least = values[i] < least ? values[i] : least;
    largest = values[i] > largest ? values[i] : largest;
  }
  return {least, largest};
}

ValueWindow rescaled(Limits range, const ScaleIntensityConfig& config) {
  ValueWindow window;
  if (range.least == range.largest) {
    window.factor = static_cast<float>(config.minv);
    return window;
  }
  const double span = static_cast<double>(range.largest) - range.least;
  window.subtrahend = range.least;
  window.factor = static_cast<float>((config.maxv - config.minv) / span);
  window.offset = static_cast<float>(config.minv);
  return window;
}

}  // namespace

void ScaleIntensityConfig::apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const {
  if (channel_wise) {
    for_channels(item, scratch, [&](float* values, int64_t count, int64_t) {
      apply_window(values, count, rescaled(range_of(values, count), *this));
    });
    return;
  }
  float* values = own_values(item, scratch);
  const int64_t count = item.values.channels * voxels_of(item.values.size);
  apply_window(values, count, rescaled(range_of(values, count), *this));
}

}  // namespace fovea::data
