#include "fovea/data/transforms/volume/volume_sample_rows.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

// Voxels done at a time: places within a block are small numbers, exact enough as floats.
constexpr int64_t kBlock = 32;
// Places this near to the outer centres count as outer: more than the rounding of a block.
constexpr double kMargin = 1e-4;
// Beyond it a block spans so many voxels that floats round by more than the margin.
constexpr double kMaxInnerStep = 8;

// The two voxels around each place of a block, and the weight of each.
struct AxisBlock {
  int32_t low[kBlock];
  int32_t high[kBlock];
  float low_weight[kBlock];
  float high_weight[kBlock];
};

template <PaddingMode kMode>
[[gnu::always_inline]] inline void axis_block(double start, double step, double last, int64_t count,
                                              AxisBlock& block) {
#pragma omp simd
  for (int32_t x = 0; x < static_cast<int32_t>(count); ++x) {
    const double at = padded_position(start + static_cast<double>(x) * step, last, kMode);
    const double low = std::floor(at);
    const double share = at - low;
    const double inner_low = clamped_position(low, last);
    const double inner_high = clamped_position(low + 1.0, last);
    block.low[x] = static_cast<int32_t>(inner_low);
    block.high[x] = static_cast<int32_t>(inner_high);
    // For zeros, a voxel that clamping moves is not there. Else its weight is 0 or it repeats one.
    constexpr bool kHasOutside = kMode == PaddingMode::kZeros;
    const int32_t has_low = kHasOutside ? inner_low == low : 1;
    const int32_t has_high = kHasOutside ? inner_high == low + 1.0 : 1;
    block.low_weight[x] = static_cast<float>((1.0 - share) * has_low);
    block.high_weight[x] = static_cast<float>(share * has_high);
  }
}

[[gnu::flatten]] FOVEA_SIMD void axis_block(double start, double step, double last, int64_t count,
                                            PaddingMode padding, AxisBlock& block) {
  if (padding == PaddingMode::kZeros) {
    axis_block<PaddingMode::kZeros>(start, step, last, count, block);
  } else if (padding == PaddingMode::kBorder) {
    axis_block<PaddingMode::kBorder>(start, step, last, count, block);
  } else {
    axis_block<PaddingMode::kReflection>(start, step, last, count, block);
  }
}

// The padding that a block needs on an axis: places that are all inside need none, and clamping is
// the cheapest that leaves them alone.
PaddingMode needed_padding(double start, double step, double last, int64_t count,
                           PaddingMode padding) {
  const double end = start + static_cast<double>(count - 1) * step;
  const bool is_inside = std::min(start, end) >= 0.0 && std::max(start, end) <= last;
  return is_inside ? PaddingMode::kBorder : padding;
}

using Corners = float[8][kBlock];

// [z][y][x], each low or high, weighted along x, y and z.
FOVEA_SIMD void blend_corners(const Corners& corners, const std::array<AxisBlock, 3>& axes,
                              int64_t count, float* __restrict out) {
  const AxisBlock& z = axes[0];
  const AxisBlock& y = axes[1];
  const AxisBlock& x = axes[2];
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float a = corners[0][i] * x.low_weight[i] + corners[1][i] * x.high_weight[i];
    const float b = corners[2][i] * x.low_weight[i] + corners[3][i] * x.high_weight[i];
    const float c = corners[4][i] * x.low_weight[i] + corners[5][i] * x.high_weight[i];
    const float d = corners[6][i] * x.low_weight[i] + corners[7][i] * x.high_weight[i];
    out[i] = (a * y.low_weight[i] + b * y.high_weight[i]) * z.low_weight[i] +
             (c * y.low_weight[i] + d * y.high_weight[i]) * z.high_weight[i];
  }
}

// Any places, near the border or outside.
void sample_outer(const FieldView<float>& in, const SampledRow& row, int64_t first, int64_t count,
                  PaddingMode padding, float* out) {
  std::array<AxisBlock, 3> axes;
  Corners corners;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double start = row.start[axis] + static_cast<double>(first) * row.step[axis];
    const auto last = static_cast<double>(in.size[axis] - 1);
    const PaddingMode needed = needed_padding(start, row.step[axis], last, count, padding);
    axis_block(start, row.step[axis], last, count, needed, axes[axis]);
  }
  for (int64_t c = 0; c < in.channels; ++c) {
    const float* from = in.first + c * in.channel_step;
    for (int64_t i = 0; i < count; ++i) {
      const float* planes[2] = {from + axes[0].low[i] * in.steps[0],
                                from + axes[0].high[i] * in.steps[0]};
      const int64_t low_row = axes[1].low[i] * in.steps[1];
      const int64_t high_row = axes[1].high[i] * in.steps[1];
      const int64_t low = axes[2].low[i] * in.steps[2];
      const int64_t high = axes[2].high[i] * in.steps[2];
      for (size_t z = 0; z < 2; ++z) {
        corners[4 * z][i] = planes[z][low_row + low];
        corners[4 * z + 1][i] = planes[z][low_row + high];
        corners[4 * z + 2][i] = planes[z][high_row + low];
        corners[4 * z + 3][i] = planes[z][high_row + high];
      }
    }
    blend_corners(corners, axes, count, out + c * row.out_channel_step + first);
  }
}

// An axis of a row where every place lies between two voxels: places count from `low`.
struct InnerAxis {
  double start = 0;
  double step = 0;
  int64_t to_high = 0;  // elements from the lower voxel to the higher one
};

// The places of a block: whole voxels as elements from the first voxel of the block, and the rest.
struct InnerBlock {
  int32_t offset[kBlock];
  float weight[3][kBlock];
};

[[gnu::always_inline]] inline int32_t rounded_down(float at) {
  const auto truncated = static_cast<int32_t>(at);
  return truncated - (at < static_cast<float>(truncated) ? 1 : 0);
}

FOVEA_SIMD void inner_block(const float* start, const float* step, const int32_t* element_step,
                            int32_t count, InnerBlock& block) {
#pragma omp simd
  for (int32_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>(i);
    const float z_at = start[0] + x * step[0];
    const float y_at = start[1] + x * step[1];
    const float x_at = start[2] + x * step[2];
    const int32_t z_low = rounded_down(z_at);
    const int32_t y_low = rounded_down(y_at);
    const int32_t x_low = rounded_down(x_at);
    block.offset[i] = z_low * element_step[0] + y_low * element_step[1] + x_low * element_step[2];
    block.weight[0][i] = z_at - static_cast<float>(z_low);
    block.weight[1][i] = y_at - static_cast<float>(y_low);
    block.weight[2][i] = x_at - static_cast<float>(x_low);
  }
}

FOVEA_SIMD void lerp_corners(const Corners& corners, const InnerBlock& block, int64_t count,
                             float* __restrict out) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float wz = block.weight[0][i], wy = block.weight[1][i], wx = block.weight[2][i];
    const float a = corners[0][i] + wx * (corners[1][i] - corners[0][i]);
    const float b = corners[2][i] + wx * (corners[3][i] - corners[2][i]);
    const float c = corners[4][i] + wx * (corners[5][i] - corners[4][i]);
    const float d = corners[6][i] + wx * (corners[7][i] - corners[6][i]);
    const float near = a + wy * (b - a);
    const float far = c + wy * (d - c);
    out[i] = near + wz * (far - near);
  }
}

void sample_inner(const FieldView<float>& in, const std::array<InnerAxis, 3>& axes,
                  const SampledRow& row, int64_t first, int64_t count, float* out) {
  float start[3], step[3];
  int32_t element_step[3];
  int64_t base = 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    const double at = axes[axis].start + static_cast<double>(first) * axes[axis].step;
    const double whole = std::floor(at);
    start[axis] = static_cast<float>(at - whole);
    step[axis] = static_cast<float>(axes[axis].step);
    element_step[axis] = static_cast<int32_t>(in.steps[axis]);
    base += static_cast<int64_t>(whole) * in.steps[axis];
  }
  InnerBlock block;
  inner_block(start, step, element_step, static_cast<int32_t>(count), block);
  const int64_t z = axes[0].to_high, y = axes[1].to_high, x = axes[2].to_high;
  Corners corners;
  for (int64_t c = 0; c < in.channels; ++c) {
    const float* from = in.first + c * in.channel_step + base;
    for (int64_t i = 0; i < count; ++i) {
      const float* at = from + block.offset[i];
      corners[0][i] = at[0];
      corners[1][i] = at[x];
      corners[2][i] = at[y];
      corners[3][i] = at[y + x];
      corners[4][i] = at[z];
      corners[5][i] = at[z + x];
      corners[6][i] = at[z + y];
      corners[7][i] = at[z + y + x];
    }
    lerp_corners(corners, block, count, out + c * row.out_channel_step + first);
  }
}

// Narrows [first, last) to the voxels whose place along an axis lies between two voxels. An axis
// along which the row does not move is settled here, wherever it lies.
void narrow(double start, double step, int64_t size, int64_t element_step, PaddingMode padding,
            int64_t& first, int64_t& last, InnerAxis& inner) {
  const auto end = static_cast<double>(size - 1);
  inner = {start, step, element_step};
  if (step == 0.0) {
    const double at = padded_position(start, end, padding);
    if (!(at >= 0.0 && at <= end)) last = first;
    inner.start = at;
    if (std::floor(at) >= end) inner.to_high = 0;  // on the last voxel, which has no higher one
    return;
  }
  if (end < 2 * kMargin || std::abs(step) > kMaxInnerStep) {
    last = first;
    return;
  }
  double low = (kMargin - start) / step;
  double high = (end - kMargin - start) / step;
  if (low > high) std::swap(low, high);
  first = std::max(first, static_cast<int64_t>(std::ceil(std::clamp(low, 0.0, 1e9))));
  last = std::min(last, static_cast<int64_t>(std::floor(std::clamp(high, -1.0, 1e9))) + 1);
}

bool fits_offsets(const FieldView<float>& in) {
  int64_t span = 0;
  for (size_t axis = 0; axis < 3; ++axis) span += in.size[axis] * std::abs(in.steps[axis]);
  return span < (int64_t{1} << 31);
}

template <class T>
void take_nearest(const FieldView<T>& in, const std::array<AxisBlock, 3>& axes, int64_t count,
                  T* out) {
  for (int64_t i = 0; i < count; ++i) {
    const bool is_inside =
        axes[0].low_weight[i] * axes[1].low_weight[i] * axes[2].low_weight[i] != 0.0f;
    const int64_t offset =
        axes[0].low[i] * in.steps[0] + axes[1].low[i] * in.steps[1] + axes[2].low[i] * in.steps[2];
    out[i] = is_inside ? in.first[offset] : T{0};
  }
}

// low: the nearest voxel; low_weight: 1, or 0 outside for padding with zeros.
template <PaddingMode kMode>
[[gnu::always_inline]] inline void nearest_block(double start, double step, double last,
                                                 int64_t count, AxisBlock& block) {
#pragma omp simd
  for (int32_t x = 0; x < static_cast<int32_t>(count); ++x) {
    const double at =
        std::nearbyint(padded_position(start + static_cast<double>(x) * step, last, kMode));
    const double inner = clamped_position(at, last);
    block.low[x] = static_cast<int32_t>(inner);
    const int32_t is_inside = inner == at;
    block.low_weight[x] = static_cast<float>(is_inside);
  }
}

[[gnu::flatten]] FOVEA_SIMD void nearest_block(double start, double step, double last,
                                               int64_t count, PaddingMode padding,
                                               AxisBlock& block) {
  if (padding == PaddingMode::kZeros) {
    nearest_block<PaddingMode::kZeros>(start, step, last, count, block);
  } else if (padding == PaddingMode::kBorder) {
    nearest_block<PaddingMode::kBorder>(start, step, last, count, block);
  } else {
    nearest_block<PaddingMode::kReflection>(start, step, last, count, block);
  }
}

}  // namespace

void sample_linear(const FieldView<float>& in, const SampledRow& row, PaddingMode padding,
                   float* out) {
  std::array<InnerAxis, 3> inner;
  int64_t first = 0;
  int64_t last = fits_offsets(in) ? row.count : 0;
  for (size_t axis = 0; axis < 3; ++axis) {
    narrow(row.start[axis], row.step[axis], in.size[axis], in.steps[axis], padding, first, last,
           inner[axis]);
  }
  if (first >= last) first = last = row.count;
  for (int64_t x = 0; x < first; x += kBlock) {
    sample_outer(in, row, x, std::min(kBlock, first - x), padding, out);
  }
  for (int64_t x = first; x < last; x += kBlock) {
    sample_inner(in, inner, row, x, std::min(kBlock, last - x), out);
  }
  for (int64_t x = last; x < row.count; x += kBlock) {
    sample_outer(in, row, x, std::min(kBlock, row.count - x), padding, out);
  }
}

template <class T>
void sample_nearest(const FieldView<T>& in, const SampledRow& row, PaddingMode padding, T* out) {
  std::array<AxisBlock, 3> axes;
  for (int64_t x = 0; x < row.count; x += kBlock) {
    const int64_t count = std::min(kBlock, row.count - x);
    for (size_t axis = 0; axis < 3; ++axis) {
      const double start = row.start[axis] + static_cast<double>(x) * row.step[axis];
      const auto last = static_cast<double>(in.size[axis] - 1);
      const PaddingMode needed = needed_padding(start, row.step[axis], last, count, padding);
      nearest_block(start, row.step[axis], last, count, needed, axes[axis]);
    }
    for (int64_t c = 0; c < in.channels; ++c) {
      FieldView<T> channel = in;
      channel.first += c * in.channel_step;
      take_nearest(channel, axes, count, out + c * row.out_channel_step + x);
    }
  }
}

template void sample_nearest(const FieldView<float>& in, const SampledRow& row, PaddingMode padding,
                             float* out);
template void sample_nearest(const FieldView<int32_t>& in, const SampledRow& row,
                             PaddingMode padding, int32_t* out);

}  // namespace fovea::data
