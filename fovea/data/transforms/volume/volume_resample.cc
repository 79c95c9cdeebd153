#include "fovea/data/transforms/volume/volume_resample.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

void reserve(AxisSamples& samples, int64_t out) {
  const auto size = static_cast<size_t>(out);
  samples.low.resize(size);
  samples.high.resize(size);
  samples.weight.resize(size);
  samples.presence.resize(size);
  samples.nearest.resize(size);
}

// Sets the two voxels around `at`, which lies from 0 to in - 1.
void set_linear(AxisSamples& samples, int64_t i, double at, int64_t in) {
  const auto low = static_cast<int64_t>(at);
  samples.low[i] = static_cast<int32_t>(low);
  samples.high[i] = static_cast<int32_t>(std::min(low + 1, in - 1));
  samples.weight[i] = static_cast<float>(at - static_cast<double>(low));
  samples.presence[i] = 1;
}

// Four rows of `in` blended into one: the corners of the rectangle around an output row.
FOVEA_SIMD void blend_rows(const float* __restrict a, const float* __restrict b,
                           const float* __restrict c, const float* __restrict d,
                           const float* weights, int64_t count, float* __restrict out) {
  const float wa = weights[0], wb = weights[1], wc = weights[2], wd = weights[3];
#pragma omp simd
  for (int64_t x = 0; x < count; ++x) out[x] = wa * a[x] + wb * b[x] + wc * c[x] + wd * d[x];
}

FOVEA_SIMD void sample_row(const float* __restrict row, const int32_t* __restrict low,
                           const int32_t* __restrict high, const float* __restrict weight,
                           const float* __restrict presence, int64_t count, float* __restrict out) {
#pragma omp simd
  for (int64_t x = 0; x < count; ++x) {
    const float left = row[low[x]];
    out[x] = (left + weight[x] * (row[high[x]] - left)) * presence[x];
  }
}

// `in` has rows without gaps.
void resample_values(const FieldView<float>& in, const Extent& size, VolumeScratch& scratch,
                     float* out) {
  const AxisSamples& sz = scratch.samples[0];
  const AxisSamples& sy = scratch.samples[1];
  const AxisSamples& sx = scratch.samples[2];
  float* row = VolumeScratch::grown(scratch.row, in.size[2]);
  for (int64_t c = 0; c < in.channels; ++c) {
    for (int64_t z = 0; z < size[0]; ++z) {
      for (int64_t y = 0; y < size[1]; ++y, out += size[2]) {
        const float present = sz.presence[z] * sy.presence[y];
        const float far_z = sz.weight[z] * present;
        const float near_z = present - far_z;
        const float far_y = sy.weight[y];
        const float weights[4] = {near_z - near_z * far_y, near_z * far_y, far_z - far_z * far_y,
                                  far_z * far_y};
        blend_rows(in.row(c, sz.low[z], sy.low[y]), in.row(c, sz.low[z], sy.high[y]),
                   in.row(c, sz.high[z], sy.low[y]), in.row(c, sz.high[z], sy.high[y]), weights,
                   in.size[2], row);
        sample_row(row, sx.low.data(), sx.high.data(), sx.weight.data(), sx.presence.data(),
                   size[2], out);
      }
    }
  }
}

void resample_classes(const FieldView<int32_t>& in, const Extent& size,
                      const VolumeScratch& scratch, int32_t* out) {
  const auto& columns = scratch.samples[2].nearest;
  for (int64_t z = 0; z < size[0]; ++z) {
    for (int64_t y = 0; y < size[1]; ++y, out += size[2]) {
      const int32_t from_z = scratch.samples[0].nearest[z];
      const int32_t from_y = scratch.samples[1].nearest[y];
      if (from_z < 0 || from_y < 0) {
        std::fill_n(out, size[2], 0);
        continue;
      }
      const int32_t* row = in.row(0, from_z, from_y);
      for (int64_t x = 0; x < size[2]; ++x) {
        out[x] = columns[x] < 0 ? 0 : row[columns[x] * in.steps[2]];
      }
    }
  }
}

constexpr int64_t kSumBlock = 256;

// out[x] = sum over k < taps of weights[k] * in[k * step + x].
FOVEA_SIMD void weighted_sum(const float* in, int64_t step, int64_t taps, const float* weights,
                             int64_t count, float* out) {
  float sums[kSumBlock];
  for (int64_t start = 0; start < count; start += kSumBlock) {
    const int64_t width = std::min(kSumBlock, count - start);
    const float* from = in + start;
    for (int64_t x = 0; x < width; ++x) sums[x] = weights[0] * from[x];
    for (int64_t k = 1; k < taps; ++k) {
      const float weight = weights[k];
      const float* tap = from + k * step;
#pragma omp simd
      for (int64_t x = 0; x < width; ++x) sums[x] += weight * tap[x];
    }
    std::copy_n(sums, width, out + start);
  }
}

// Smooths along an axis whose neighbours are `step` apart: `blocks` blocks of length * step values.
void smooth_across(const float* in, int64_t blocks, int64_t length, int64_t step,
                   const std::vector<float>& kernel, float* out) {
  const auto tail = static_cast<int64_t>(kernel.size() / 2);
  for (int64_t block = 0; block < blocks; ++block) {
    const float* from = in + block * length * step;
    float* to = out + block * length * step;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t first = std::max<int64_t>(i - tail, 0);
      const int64_t last = std::min(i + tail, length - 1);
      weighted_sum(from + first * step, step, last - first + 1, kernel.data() + (first - i + tail),
                   step, to + i * step);
    }
  }
}

void smooth_rows(const float* in, int64_t rows, int64_t length, const std::vector<float>& kernel,
                 std::vector<float>& buffer, float* out) {
  const auto tail = static_cast<int64_t>(kernel.size() / 2);
  float* padded = VolumeScratch::grown(buffer, length + 2 * tail);
  std::fill_n(padded, tail, 0.0f);
  std::fill_n(padded + tail + length, tail, 0.0f);
  for (int64_t row = 0; row < rows; ++row) {
    std::copy_n(in + row * length, length, padded + tail);
    weighted_sum(padded, 1, 2 * tail + 1, kernel.data(), length, out + row * length);
  }
}

}  // namespace

void sample_to_size(int64_t in, int64_t out, bool is_exact, AxisSamples& samples) {
  reserve(samples, out);
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const float rounded_scale = static_cast<float>(in) / static_cast<float>(out);  // as torch's
  for (int64_t i = 0; i < out; ++i) {
    const double at = (static_cast<double>(i) + 0.5) * scale - 0.5;
    set_linear(samples, i, clamped_position(at, static_cast<double>(in - 1)), in);
    const float nearest = (static_cast<float>(i) + (is_exact ? 0.5f : 0.0f)) * rounded_scale;
    samples.nearest[i] = static_cast<int32_t>(std::min(static_cast<int64_t>(nearest), in - 1));
  }
}

void sample_by_step(int64_t in, int64_t out, double step, PaddingMode mode, AxisSamples& samples) {
  reserve(samples, out);
  const auto last = static_cast<double>(in - 1);
  for (int64_t i = 0; i < out; ++i) {
    const double at = padded_position(static_cast<double>(i) * step, last, mode);
    set_linear(samples, i, std::min(at, last), in);
    const double nearest = std::nearbyint(at);
    samples.nearest[i] = nearest > last ? -1 : static_cast<int32_t>(nearest);
    if (at > last) samples.presence[i] = static_cast<float>(std::max(0.0, 1.0 - (at - last)));
  }
}

int64_t size_by_step(int64_t in, double step) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(in - 1) / step + 1.0));
}

void resample_axes(VolumeItem& item, const Extent& size, VolumeScratch& scratch) {
  if (item.values.steps[2] != 1) own_values(item, scratch);
  float* out = scratch.next_values(item.values.channels * voxels_of(size));
  resample_values(item.values, size, scratch, out);
  set_values(item, out, size);
  if (!item.has_mask()) return;
  int32_t* classes = scratch.next_classes(voxels_of(size));
  resample_classes(item.classes, size, scratch, classes);
  set_classes(item, classes, size);
}

void gaussian_kernel(double sigma, std::vector<float>& kernel) {
  const auto tail = static_cast<int64_t>(std::max(sigma * 4.0, 0.5) + 0.5);
  kernel.resize(static_cast<size_t>(2 * tail + 1));
  const double scale = std::sqrt(0.5) / sigma;
  for (int64_t k = -tail; k <= tail; ++k) {
    const auto x = static_cast<double>(k);
    const double share = 0.5 * (std::erf(scale * (x + 0.5)) - std::erf(scale * (x - 0.5)));
    kernel[static_cast<size_t>(k + tail)] = static_cast<float>(share);
  }
}

void gaussian_smooth(VolumeItem& item, const std::array<double, 3>& sigma, VolumeScratch& scratch) {
  const auto [depth, height, width] = item.values.size;
  const int64_t channels = item.values.channels;
  const int64_t count = channels * depth * height * width;
  if (!item.values.is_dense()) own_values(item, scratch);
  for (size_t axis = 0; axis < 3; ++axis) {
    if (sigma[axis] <= 0 || item.values.size[axis] == 1) continue;
    gaussian_kernel(sigma[axis], scratch.kernel);
    const float* in = item.values.first;
    float* out = scratch.next_values(count);
    if (axis == 0) {
      smooth_across(in, channels, depth, height * width, scratch.kernel, out);
    } else if (axis == 1) {
      smooth_across(in, channels * depth, height, width, scratch.kernel, out);
    } else {
      smooth_rows(in, channels * depth * height, width, scratch.kernel, scratch.row, out);
    }
    set_values(item, out, item.values.size);
  }
}

}  // namespace fovea::data
