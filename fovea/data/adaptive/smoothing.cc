#include "fovea/data/adaptive/smoothing.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "fovea/core/simd.h"
#include "fovea/data/adaptive/border.h"
#include "fovea/data/adaptive/gaussian_rows.h"

namespace fovea::data::patching {
namespace {

void set_weights(int64_t sigma, std::vector<double>& weights) {
  const int64_t radius = 4 * sigma;
  weights.resize(static_cast<size_t>(radius + 1));
  double sum = 0;
  for (int64_t i = 0; i <= radius; ++i) {
    const auto x = static_cast<double>(i);
    weights[static_cast<size_t>(i)] = std::exp(-0.5 / static_cast<double>(sigma * sigma) * x * x);
    sum += (i == 0 ? 1 : 2) * weights[static_cast<size_t>(i)];
  }
  for (double& weight : weights) weight /= sum;
}

// Line `at` of `lines` [count, width], summed with the lines before and after it.
void filter_across(const double* lines, int64_t count, int64_t width, int64_t at,
                   SmoothingScratch& scratch, float* out) {
  const auto radius = static_cast<int64_t>(scratch.weights.size()) - 1;
  for (int64_t k = 1; k <= radius; ++k) {
    scratch.before[static_cast<size_t>(k)] = lines + reflect(at - k, count) * width;
    scratch.after[static_cast<size_t>(k)] = lines + reflect(at + k, count) * width;
  }
  filter_line(lines + at * width, scratch.before.data(), scratch.after.data(),
              scratch.weights.data(), radius, width, out);
}

// A row summed along itself. in and out may be the same.
void filter_along(const float* in, int64_t count, SmoothingScratch& scratch, float* out) {
  const auto radius = static_cast<int64_t>(scratch.weights.size()) - 1;
  scratch.row.resize(static_cast<size_t>(count + 2 * radius));
  double* row = scratch.row.data() + radius;
  widen_line(in, count, row);
  for (int64_t k = 1; k <= radius; ++k) {
    row[-k] = row[reflect(-k, count)];
    row[count - 1 + k] = row[reflect(count - 1 + k, count)];
    scratch.before[static_cast<size_t>(k)] = row - k;
    scratch.after[static_cast<size_t>(k)] = row + k;
  }
  filter_line(row, scratch.before.data(), scratch.after.data(), scratch.weights.data(), radius,
              count, out);
}

void smooth_depth(std::span<const float> in, VolumeSize size, SmoothingScratch& scratch) {
  const int64_t slice = size.height * size.width;
  scratch.lines.resize(static_cast<size_t>(size.depth * size.width));
  for (int64_t y = 0; y < size.height; ++y) {
    for (int64_t z = 0; z < size.depth; ++z) {
      widen_line(in.data() + z * slice + y * size.width, size.width,
                 scratch.lines.data() + z * size.width);
    }
    for (int64_t z = 0; z < size.depth; ++z) {
      filter_across(scratch.lines.data(), size.depth, size.width, z, scratch,
                    scratch.middle.data() + z * slice + y * size.width);
    }
  }
}

// Along H, then along W, slice by slice.
void smooth_slices(VolumeSize size, std::vector<float>& out, SmoothingScratch& scratch) {
  const int64_t slice = size.height * size.width;
  scratch.lines.resize(static_cast<size_t>(slice));
  for (int64_t z = 0; z < size.depth; ++z) {
    widen_line(scratch.middle.data() + z * slice, slice, scratch.lines.data());
    for (int64_t y = 0; y < size.height; ++y) {
      float* target = out.data() + z * slice + y * size.width;
      filter_across(scratch.lines.data(), size.height, size.width, y, scratch, target);
      filter_along(target, size.width, scratch, target);
    }
  }
}

FOVEA_SIMD void clip_to_bytes(const float* in, int64_t count, float black, float scale,
                              uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    const float level = (in[i] - black) * scale;
    const float floor = level > 0.0f ? level : 0.0f;  // NaN compares false
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(floor < 255.0f ? floor : 255.0f));
  }
}

struct SobelRows {
  std::array<const uint8_t*, 9> in;  // slices z - 1, z, z + 1; of each the rows y - 1, y, y + 1
  int16_t* across;                   // smoothed along D and H: its slope along W is meant
  int16_t* down;                     // slope along H, smoothed along D
  int16_t* deep;                     // slope along D, smoothed along H
};

FOVEA_SIMD void sobel_columns(const SobelRows& rows, int64_t width) {
  const auto& in = rows.in;
  const uint8_t *a = in[0], *b = in[1], *c = in[2], *d = in[3], *e = in[4], *f = in[5], *g = in[6],
                *h = in[7], *i = in[8];
  int16_t *across = rows.across, *down = rows.down, *deep = rows.deep;
#pragma omp simd
  for (int64_t x = 0; x < width; ++x) {
    const int first = a[x] + 2 * b[x] + c[x];
    const int middle = d[x] + 2 * e[x] + f[x];
    const int last = g[x] + 2 * h[x] + i[x];
    across[x] = static_cast<int16_t>(first + 2 * middle + last);
    deep[x] = static_cast<int16_t>(last - first);
    down[x] = static_cast<int16_t>(c[x] - a[x] + 2 * (f[x] - d[x]) + i[x] - g[x]);
  }
}

FOVEA_SIMD void sobel_lengths(const int16_t* across, const int16_t* down, const int16_t* deep,
                              int64_t width, uint16_t* out) {
#pragma omp simd
  for (int64_t x = 0; x < width; ++x) {
    const int gx = across[x + 1] - across[x - 1];
    const int gy = down[x - 1] + 2 * down[x] + down[x + 1];
    const int gz = deep[x - 1] + 2 * deep[x] + deep[x + 1];
    const auto length =
        static_cast<int>(std::sqrt(static_cast<float>(gx * gx + gy * gy + gz * gz)) + 0.5f);
    out[x] = static_cast<uint16_t>(std::max<int>(out[x], length));
  }
}

// Weights of OpenCV's small kernels, from the middle outwards.
std::array<float, 3> blur_weights(int64_t blur_size) {
  if (blur_size == 3) return {0.5f, 0.25f, 0.0f};
  return {0.375f, 0.25f, 0.0625f};
}

}  // namespace

void gaussian_smooth(std::span<const float> in, VolumeSize size, int64_t sigma,
                     std::vector<float>& out, SmoothingScratch& scratch) {
  out.resize(in.size());
  if (sigma == 0) {
    std::copy(in.begin(), in.end(), out.begin());
    return;
  }
  set_weights(sigma, scratch.weights);
  scratch.before.resize(scratch.weights.size());
  scratch.after.resize(scratch.weights.size());
  scratch.middle.resize(in.size());
  smooth_depth(in, size, scratch);
  smooth_slices(size, out, scratch);
}

void gaussian_blur_along(const float* in, int64_t width, int64_t blur_size, float* out) {
  const auto weights = blur_weights(blur_size);
  for (int64_t x = 0; x < width; ++x) {
    float sum = in[x] * weights[0];
    for (int64_t k = 1; k <= blur_size / 2; ++k) {
      sum += (in[reflect101(x - k, width)] + in[reflect101(x + k, width)]) *
             weights[static_cast<size_t>(k)];
    }
    out[x] = sum;
  }
}

void gaussian_blur_across(const float* const* rows, int64_t width, int64_t blur_size, float* out) {
  const auto weights = blur_weights(blur_size);
  const int64_t radius = blur_size / 2;
  for (int64_t x = 0; x < width; ++x) {
    float sum = rows[radius][x] * weights[0];
    for (int64_t k = 1; k <= radius; ++k) {
      sum += (rows[radius - k][x] + rows[radius + k][x]) * weights[static_cast<size_t>(k)];
    }
    out[x] = sum;
  }
}

void to_bytes(const float* in, int64_t count, double black, double white, uint8_t* out) {
  clip_to_bytes(in, count, static_cast<float>(black), static_cast<float>(255.0 / (white - black)),
                out);
}

void sobel_magnitude(const uint8_t* in, VolumeSize size, uint16_t* out,
                     std::vector<int16_t>& rows) {
  const int64_t padded = size.width + 2;
  rows.resize(static_cast<size_t>(3 * padded));
  SobelRows sobel;
  sobel.across = rows.data() + 1;
  sobel.down = sobel.across + padded;
  sobel.deep = sobel.down + padded;
  for (int64_t z = 0; z < size.depth; ++z) {
    for (int64_t y = 0; y < size.height; ++y) {
      for (int64_t k = 0; k < 9; ++k) {
        const int64_t near_z = std::clamp<int64_t>(z + k / 3 - 1, 0, size.depth - 1);
        const int64_t near_y = std::clamp<int64_t>(y + k % 3 - 1, 0, size.height - 1);
        sobel.in[static_cast<size_t>(k)] = in + (near_z * size.height + near_y) * size.width;
      }
      sobel_columns(sobel, size.width);
      for (int16_t* row : {sobel.across, sobel.down, sobel.deep}) {
        row[-1] = row[0];
        row[size.width] = row[size.width - 1];
      }
      sobel_lengths(sobel.across, sobel.down, sobel.deep, size.width,
                    out + (z * size.height + y) * size.width);
    }
  }
}

}  // namespace fovea::data::patching
