#include "fovea/data/transforms/volume/volume_intensity.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"
#include "fovea/data/transforms/standard_normals.h"

namespace fovea::data {
namespace {

// Sums run over pieces of fixed size, so that their rounding does not grow with the volume.
constexpr int64_t kSumPiece = 4096;

struct Window {
  float subtrahend = 0;
  float factor = 1;
  float offset = 0;
  float least = -std::numeric_limits<float>::infinity();
  float largest = std::numeric_limits<float>::infinity();
};

FOVEA_SIMD void add_to(float* values, int64_t count, float offset) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] += offset;
}

FOVEA_SIMD void multiply(float* values, int64_t count, float factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

FOVEA_SIMD void apply_window(float* values, int64_t count, const Window& window) {
  const Window w = window;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float value = (values[i] - w.subtrahend) * w.factor + w.offset;
    const float raised = value < w.least ? w.least : value;
    values[i] = raised > w.largest ? w.largest : raised;
  }
}

// (v - subtrahend) * factor where v is not 0.
[[gnu::flatten]] FOVEA_SIMD void normalize_nonzero(float* values, int64_t count, float subtrahend,
                                                   float factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    // A mask in place of a branch, which would keep the loop from being vectorised.
    const float value = values[i];
    const uint32_t is_counted = value != 0.0f ? ~uint32_t{0} : 0;
    const auto result = std::bit_cast<uint32_t>((value - subtrahend) * factor);
    values[i] = std::bit_cast<float>(result & is_counted);
  }
}

struct Range {
  float least;
  float largest;
};

FOVEA_SIMD Range range_of(const float* values, int64_t count) {
  float least = values[0];
  float largest = values[0];
#pragma omp simd reduction(min : least) reduction(max : largest)
  for (int64_t i = 0; i < count; ++i) {
    least = values[i] < least ? values[i] : least;
    largest = values[i] > largest ? values[i] : largest;
  }
  return {least, largest};
}

FOVEA_SIMD double sum_of(const float* values, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += values[i];
  return sum;
}

FOVEA_SIMD int64_t nonzeros_in(const float* values, int64_t count) {
  int32_t nonzeros = 0;
#pragma omp simd reduction(+ : nonzeros)
  for (int64_t i = 0; i < count; ++i) nonzeros += values[i] != 0.0f ? 1 : 0;
  return nonzeros;
}

FOVEA_SIMD double squares_of(const float* values, int64_t count, double mean) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const double difference = values[i] - mean;
    sum += difference * difference;
  }
  return sum;
}

// f(piece, length) over pieces of `values`, summed.
template <class F>
auto sum_pieces(const float* values, int64_t count, F&& f) {
  decltype(f(values, count)) sum = 0;
  for (int64_t i = 0; i < count; i += kSumPiece)
    sum += f(values + i, std::min(kSumPiece, count - i));
  return sum;
}

struct Moments {
  double mean = 0;
  double std = 0;
  int64_t count = 0;
};

// Of all values, or of those that are not 0: zeros add nothing to the sum and mean^2 each to the
// squares.
Moments moments_of(const float* values, int64_t count, bool nonzero) {
  Moments moments;
  moments.count = nonzero ? sum_pieces(values, count, nonzeros_in) : count;
  if (moments.count == 0) return moments;
  const auto counted = static_cast<double>(moments.count);
  moments.mean = sum_pieces(values, count, sum_of) / counted;
  const double squares = sum_pieces(values, count, [&](const float* piece, int64_t length) {
    return squares_of(piece, length, moments.mean);
  });
  const double of_zeros = static_cast<double>(count - moments.count) * moments.mean * moments.mean;
  moments.std = std::sqrt(std::max(squares - of_zeros, 0.0) / counted);
  return moments;
}

double given_value(const std::vector<double>& values, const char* key, int64_t channel,
                   int64_t channels) {
  if (values.size() == 1) return values[0];
  if (static_cast<int64_t>(values.size()) == channels) return values[static_cast<size_t>(channel)];
  fail<DataError>(
      "normalize_intensity.{} has {} values, but the volume has {} channel(s); give one value, or "
      "{}",
      key, values.size(), channels, channels);
}

template <class F>
void for_channels(VolumeItem& item, VolumeScratch& scratch, F&& f) {
  float* values = own_values(item, scratch);
  const int64_t voxels = voxels_of(item.values.size);
  for (int64_t c = 0; c < item.values.channels; ++c) f(values + c * voxels, voxels, c);
}

float of_channel(std::span<const float> values, int64_t channel) {
  return values.size() == 1 ? values[0] : values[static_cast<size_t>(channel)];
}

Window rescaled(Range range, const ScaleIntensityConfig& config) {
  Window window;
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

void scale_intensity_range(VolumeItem& item, const ScaleIntensityRangeConfig& config,
                           VolumeScratch& scratch) {
  Window window;
  window.subtrahend = static_cast<float>(config.a_min);
  window.factor = static_cast<float>((config.b_max - config.b_min) / (config.a_max - config.a_min));
  window.offset = static_cast<float>(config.b_min);
  if (config.clip) {
    window.least = static_cast<float>(config.b_min);
    window.largest = static_cast<float>(config.b_max);
  }
  for_channels(item, scratch,
               [&](float* values, int64_t count, int64_t) { apply_window(values, count, window); });
}

void scale_intensity(VolumeItem& item, const ScaleIntensityConfig& config, VolumeScratch& scratch) {
  if (config.channel_wise) {
    for_channels(item, scratch, [&](float* values, int64_t count, int64_t) {
      apply_window(values, count, rescaled(range_of(values, count), config));
    });
    return;
  }
  float* values = own_values(item, scratch);
  const int64_t count = item.values.channels * voxels_of(item.values.size);
  apply_window(values, count, rescaled(range_of(values, count), config));
}

void normalize_intensity(VolumeItem& item, const NormalizeIntensityConfig& config,
                         VolumeScratch& scratch) {
  const bool is_given = !config.subtrahend.empty() && !config.divisor.empty();
  const int64_t channels = item.values.channels;
  Moments of_all;
  if (!config.channel_wise && !is_given) {
    const float* values = own_values(item, scratch);
    of_all = moments_of(values, channels * voxels_of(item.values.size), config.nonzero);
  }
  for_channels(item, scratch, [&](float* values, int64_t count, int64_t c) {
    const bool is_own = config.channel_wise && !is_given;
    const Moments moments = is_own ? moments_of(values, count, config.nonzero) : of_all;
    const double subtrahend = config.subtrahend.empty()
                                  ? moments.mean
                                  : given_value(config.subtrahend, "subtrahend", c, channels);
    double divisor =
        config.divisor.empty() ? moments.std : given_value(config.divisor, "divisor", c, channels);
    if (divisor == 0.0) divisor = 1.0;
    Window window;
    window.subtrahend = static_cast<float>(subtrahend);
    window.factor = static_cast<float>(1.0 / divisor);
    if (config.nonzero) {
      normalize_nonzero(values, count, window.subtrahend, window.factor);
    } else {
      apply_window(values, count, window);
    }
  });
}

void add_gaussian_noise(VolumeItem& item, PhiloxKey key, float mean, float std,
                        VolumeScratch& scratch) {
  float* values = own_values(item, scratch);
  add_standard_normals(
      key, mean, std,
      {values, static_cast<size_t>(item.values.channels * voxels_of(item.values.size))});
}

}  // namespace fovea::data
