#include "fovea/data/adaptive/edge_direction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "fovea/core/simd.h"
#include "fovea/data/adaptive/border.h"

namespace fovea::data::patching {
namespace {

constexpr float kClose = 1e-4f;  // far above the rounding of a gradient in float

// Grows with atan2(dy, dx), from -2 to 2, at the cost of one division.
float diamond_angle(double dx, double dy) {
  const double sum = std::abs(dx) + std::abs(dy);
  if (sum == 0) return 0;
  const double slope = dy / sum;
  if (dx >= 0) return static_cast<float>(slope);
  return static_cast<float>(dy >= 0 ? 2 - slope : -2 - slope);
}

struct GradientAt {
  double dx = 0;
  double dy = 0;
};

// Sobel of aperture 5 at one pixel of a slice [H, W], border 101, in double as in the original.
GradientAt sobel5(const float* slice, int64_t height, int64_t width, int64_t y, int64_t x) {
  std::array<double, 5> slopes;
  std::array<double, 5> sums;
  for (int64_t k = 0; k < 5; ++k) {
    const float* row = slice + reflect101(y + k - 2, height) * width;
    std::array<double, 5> value;
    for (int64_t i = 0; i < 5; ++i) {
      value[static_cast<size_t>(i)] = row[reflect101(x + i - 2, width)];
    }
    const auto line = static_cast<size_t>(k);
    slopes[line] = value[4] - value[0] + 2 * (value[3] - value[1]);
    sums[line] = value[0] + value[4] + 4 * (value[1] + value[3]) + 6 * value[2];
  }
  return {slopes[0] + slopes[4] + 4 * (slopes[1] + slopes[3]) + 6 * slopes[2],
          sums[4] - sums[0] + 2 * (sums[3] - sums[1])};
}

GradientAt sobel5(const float* volume, VolumeSize size, int64_t index) {
  const int64_t slice = size.height * size.width;
  const int64_t at = index % slice;
  return sobel5(volume + index - at, size.height, size.width, at / size.width, at % size.width);
}

FOVEA_SIMD void sobel5_columns(const float* const* rows, int64_t width, float* sums,
                               float* slopes) {
  const float *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3], *e = rows[4];
#pragma omp simd
  for (int64_t x = 0; x < width; ++x) {
    sums[x] = a[x] + e[x] + 4 * (b[x] + d[x]) + 6 * c[x];
    slopes[x] = e[x] - a[x] + 2 * (d[x] - b[x]);
  }
}

FOVEA_SIMD void sobel5_rows(const float* sums, const float* slopes, int64_t width, float* dx,
                            float* dy) {
#pragma omp simd
  for (int64_t x = 0; x < width; ++x) {
    dx[x] = sums[x + 2] - sums[x - 2] + 2 * (sums[x + 1] - sums[x - 1]);
    dy[x] = slopes[x - 2] + slopes[x + 2] + 4 * (slopes[x - 1] + slopes[x + 1]) + 6 * slopes[x];
  }
}

// The direction in the original's precision.
float direction(const EdgeVoxel& edge, const float* volume, VolumeSize size) {
  if (volume == nullptr) return std::atan2(edge.dy, edge.dx);
  const GradientAt gradient = sobel5(volume, size, edge.index);
  return static_cast<float>(std::atan2(gradient.dy, gradient.dx));
}

}  // namespace

void append_directions(const float* volume, VolumeSize size, int64_t z, int64_t y,
                       const uint64_t* bits, DirectionScratch& scratch,
                       std::vector<EdgeVoxel>& edges) {
  const int64_t words = (size.width + 63) / 64;
  if (std::all_of(bits, bits + words, [](uint64_t word) { return word == 0; })) return;
  const float* slice = volume + z * size.height * size.width;
  const int64_t stride = size.width + 4;
  scratch.rows.resize(static_cast<size_t>(4 * stride));
  float* sums = scratch.rows.data() + 2;
  float* slopes = sums + stride;
  float* dx = slopes + stride;
  float* dy = dx + stride;
  std::array<const float*, 5> rows;
  for (int64_t k = 0; k < 5; ++k) {
    rows[static_cast<size_t>(k)] = slice + reflect101(y + k - 2, size.height) * size.width;
  }
  sobel5_columns(rows.data(), size.width, sums, slopes);
  for (float* row : {sums, slopes}) {
    for (int64_t i = 1; i <= 2; ++i) {
      row[-i] = row[reflect101(-i, size.width)];
      row[size.width - 1 + i] = row[reflect101(size.width - 1 + i, size.width)];
    }
  }
  sobel5_rows(sums, slopes, size.width, dx, dy);
  const int64_t first = (z * size.height + y) * size.width;
  for (int64_t w = 0; w < words; ++w) {
    for (uint64_t rest = bits[w]; rest != 0; rest &= rest - 1) {
      const int64_t x = 64 * w + std::countr_zero(rest);
      EdgeVoxel edge = {static_cast<uint32_t>(first + x), dx[x], dy[x], 0};
      // Close to pi the sign of dy decides between the two ends: no rounding there.
      if (edge.dx < 0 && std::abs(edge.dy) < -kClose * edge.dx) {
        const GradientAt exact = sobel5(slice, size.height, size.width, y, x);
        edge.dx = static_cast<float>(exact.dx);
        edge.dy = static_cast<float>(exact.dy);
      }
      edge.position = diamond_angle(edge.dx, edge.dy);
      edges.push_back(edge);
    }
  }
}

void keep_upper_directions(std::span<const EdgeVoxel> edges, const float* volume, VolumeSize size,
                           std::span<uint8_t> counts) {
  if (edges.empty()) return;
  float first = edges.front().position;
  float last = first;
  for (const EdgeVoxel& edge : edges) {
    first = std::min(first, edge.position);
    last = std::max(last, edge.position);
  }
  const float pi = static_cast<float>(std::atan2(0.0, -1.0));
  const bool has_flat = edges.size() < counts.size();
  float least = has_flat ? 0.0f : pi;
  float most = has_flat ? 0.0f : -pi;
  for (const EdgeVoxel& edge : edges) {
    if (edge.position < first + kClose && least > -pi) {
      least = std::min(least, direction(edge, volume, size));
    }
    if (edge.position > last - kClose && most < pi) {
      most = std::max(most, direction(edge, volume, size));
    }
  }
  const double middle = 0.5 * (double{least} + double{most});
  const float threshold = diamond_angle(std::cos(middle), std::sin(middle));
  for (const EdgeVoxel& edge : edges) {
    bool is_upper = edge.position > threshold;
    // Close to the threshold the order of roundings decides: as in the original, in float.
    if (std::abs(edge.position - threshold) < kClose) {
      is_upper = (direction(edge, volume, size) - least) / (most - least) > 0.5f;
    }
    if (!is_upper) counts[edge.index] = 0;
  }
}

}  // namespace fovea::data::patching
