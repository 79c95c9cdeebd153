#include "fovea/data/transforms/volume/volume_intensity.h"

#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

FOVEA_SIMD void add_to(float* values, int64_t count, float offset) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] += offset;
}

FOVEA_SIMD void multiply(float* values, int64_t count, float factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

float of_channel(std::span<const float> values, int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

}  // namespace

FOVEA_SIMD void apply_window(float* values, int64_t count, const ValueWindow& window) {
  const ValueWindow w = window;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float value = (values[i] - w.subtrahend) * w.factor + w.offset;
    const float raised = value < w.least ? w.least : value;
    values[i] = raised > w.largest ? w.largest : raised;
  }
}

void shift_intensity(VolumeItem& item, std::span<const float> offsets, VolumeScratch& scratch) {
  for_channels(item, scratch, [&](float* values, int64_t count, int64_t channel) {
    add_to(values, count, of_channel(offsets, channel));
  });
}

void multiply_intensity(VolumeItem& item, std::span<const float> factors, VolumeScratch& scratch) {
  for_channels(item, scratch, [&](float* values, int64_t count, int64_t channel) {
    multiply(values, count, of_channel(factors, channel));
  });
}

std::span<const float> draw_values(const std::vector<double>& range, double add, bool channel_wise,
                                   int64_t channels, RandomStream& random, VolumeScratch& scratch) {
  const double low = range.size() == 1 ? -range[0] : range[0];
  const double high = range.back();
  const int64_t count = channel_wise ? channels : 1;
  float* values = VolumeScratch::grown(scratch.row, count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>(random.uniform(low, high) + add);
  }
  return {values, static_cast<size_t>(count)};
}

}  // namespace fovea::data
