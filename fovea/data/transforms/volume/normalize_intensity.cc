#include "fovea/data/transforms/volume/normalize_intensity.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"
#include "fovea/data/transforms/volume/volume_intensity.h"

namespace fovea::data {
namespace {

// Sums run over pieces of fixed size, so that their rounding does not grow with the volume.
constexpr int64_t kSumPiece = 4096;

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
};

// Of all values, or of those that are not 0: zeros add nothing to the sum and mean^2 each to the
// squares.
Moments moments_of(const float* values, int64_t count, bool nonzero) {
  Moments moments;
  const int64_t used = nonzero ? sum_pieces(values, count, nonzeros_in) : count;
  if (used == 0) return moments;
  const auto counted = static_cast<double>(used);
  moments.mean = sum_pieces(values, count, sum_of) / counted;
  const double squares = sum_pieces(values, count, [&](const float* piece, int64_t length) {
    return squares_of(piece, length, moments.mean);
  });
  const double of_zeros = static_cast<double>(count - used) * moments.mean * moments.mean;
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

}  // namespace

void NormalizeIntensityConfig::validate(ConfigIssues& issues) const {
  const bool has_zero =
      std::any_of(divisor.begin(), divisor.end(), [](double value) { return value == 0; });
  if (has_zero) issues.add("divisor", listed(divisor) + "; expected numbers other than 0");
}

void NormalizeIntensityConfig::apply(VolumeItem& item, RandomStream&,
                                     VolumeScratch& scratch) const {
  const bool is_given = !subtrahend.empty() && !divisor.empty();
  const int64_t channels = item.values.channels;
  Moments of_all;
  if (!channel_wise && !is_given) {
    const float* values = own_values(item, scratch);
    of_all = moments_of(values, channels * voxels_of(item.values.size), nonzero);
  }
  for_channels(item, scratch, [&](float* values, int64_t count, int64_t c) {
    const bool is_own = channel_wise && !is_given;
    const Moments moments = is_own ? moments_of(values, count, nonzero) : of_all;
    const double mean =
        subtrahend.empty() ? moments.mean : given_value(subtrahend, "subtrahend", c, channels);
    double std = divisor.empty() ? moments.std : given_value(divisor, "divisor", c, channels);
    if (std == 0.0) std = 1.0;
    ValueWindow window;
    window.subtrahend = static_cast<float>(mean);
    window.factor = static_cast<float>(1.0 / std);
    if (nonzero) {
      normalize_nonzero(values, count, window.subtrahend, window.factor);
    } else {
      apply_window(values, count, window);
    }
  });
}

}  // namespace fovea::data
