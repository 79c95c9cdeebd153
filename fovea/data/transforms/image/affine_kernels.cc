#include "fovea/data/transforms/image/affine_kernels.h"

#include <algorithm>
#include <cstring>

#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

#define FOVEA_INLINE inline __attribute__((always_inline))

typedef uint8_t Byte16 __attribute__((vector_size(16)));
typedef int32_t Int4 __attribute__((vector_size(16)));
typedef float Float4 __attribute__((vector_size(16)));

// Four bytes as floats. Spelt as two interleavings with zeros: a conversion of four bytes would be
// done byte by byte.
FOVEA_INLINE Float4 load4(const uint8_t* bytes) {
  int32_t word;
  std::memcpy(&word, bytes, 4);
  const Byte16 zero = {};
  const auto values = reinterpret_cast<Byte16>(Int4{word, 0, 0, 0});
  const Byte16 pairs =
      __builtin_shufflevector(values, zero, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const Byte16 quads =
      __builtin_shufflevector(pairs, zero, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
  return __builtin_convertvector(reinterpret_cast<Int4>(quads), Float4);
}

FOVEA_INLINE Float4 clamp_to_byte(Float4 value) {
  const Float4 low = {0, 0, 0, 0};
  const Float4 high = {255, 255, 255, 255};
  value = value > low ? value : low;
  return value < high ? value : high;
}

FOVEA_INLINE void store3(Float4 value, uint8_t* out) {
  const Int4 whole = __builtin_convertvector(value, Int4);
  out[0] = static_cast<uint8_t>(whole[0]);
  out[1] = static_cast<uint8_t>(whole[1]);
  out[2] = static_cast<uint8_t>(whole[2]);
}

FOVEA_SIMD void bicubic_rgb(const ImageView& in, const AffinePlaces& at, int64_t first,
                            int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fx = at.fraction_x;
  const float* fy = at.fraction_y;
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    float wx[4], wy[4];
    cubic_weights(fx[x], wx);
    cubic_weights(fy[x], wy);
    const auto row = [&](const uint8_t* first) __attribute__((always_inline)) {
      return wx[0] * load4(first) + wx[1] * load4(first + 3) + wx[2] * load4(first + 6) +
             wx[3] * load4(first + 9);
    };
    const Float4 slack = {kAffineSlack, kAffineSlack, kAffineSlack, kAffineSlack};
    const Float4 sum = wy[0] * row(tap) + wy[1] * row(tap + stride) +
                       wy[2] * row(tap + 2 * stride) + wy[3] * row(tap + 3 * stride) + slack;
    store3(clamp_to_byte(sum), out + 3 * x);
  }
}

FOVEA_SIMD void bicubic_gray(const ImageView& in, const AffinePlaces& at, int64_t first,
                             int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fx = at.fraction_x;
  const float* fy = at.fraction_y;
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    float wx[4], wy[4];
    cubic_weights(fx[x], wx);
    cubic_weights(fy[x], wy);
    const Float4 columns = wy[0] * load4(tap) + wy[1] * load4(tap + stride) +
                           wy[2] * load4(tap + 2 * stride) + wy[3] * load4(tap + 3 * stride);
    const float sum = columns[0] * wx[0] + columns[1] * wx[1] + columns[2] * wx[2] +
                      columns[3] * wx[3] + kAffineSlack;
    out[x] = static_cast<uint8_t>(std::clamp(sum, 0.0f, 255.0f));
  }
}

// The column kernels: all taps of a pixel in one column, as where a shear along y moves columns.
FOVEA_SIMD void bicubic_column_rgb(const ImageView& in, const AffinePlaces& at, int64_t first,
                                   int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fy = at.fraction_y;
  const Float4 slack = {kAffineSlack, kAffineSlack, kAffineSlack, kAffineSlack};
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    float wy[4];
    cubic_weights(fy[x], wy);
    const Float4 sum = wy[0] * load4(tap) + wy[1] * load4(tap + stride) +
                       wy[2] * load4(tap + 2 * stride) + wy[3] * load4(tap + 3 * stride) + slack;
    store3(clamp_to_byte(sum), out + 3 * x);
  }
}

FOVEA_SIMD void bicubic_column_gray(const ImageView& in, const AffinePlaces& at, int64_t first,
                                    int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fy = at.fraction_y;
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    float wy[4];
    cubic_weights(fy[x], wy);
    const float sum = wy[0] * static_cast<float>(tap[0]) + wy[1] * static_cast<float>(tap[stride]) +
                      wy[2] * static_cast<float>(tap[2 * stride]) +
                      wy[3] * static_cast<float>(tap[3 * stride]) + kAffineSlack;
    out[x] = static_cast<uint8_t>(std::clamp(sum, 0.0f, 255.0f));
  }
}

FOVEA_SIMD void bilinear_column_rgb(const ImageView& in, const AffinePlaces& at, int64_t first,
                                    int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fy = at.fraction_y;
  const Float4 slack = {kAffineSlack, kAffineSlack, kAffineSlack, kAffineSlack};
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    const Float4 top = load4(tap);
    store3(top + (load4(tap + stride) - top) * fy[x] + slack, out + 3 * x);
  }
}

FOVEA_SIMD void bilinear_column_gray(const ImageView& in, const AffinePlaces& at, int64_t first,
                                     int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fy = at.fraction_y;
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    const float top = tap[0], bottom = tap[stride];
    out[x] = static_cast<uint8_t>(top + (bottom - top) * fy[x] + kAffineSlack);
  }
}

FOVEA_SIMD void bilinear_rgb(const ImageView& in, const AffinePlaces& at, int64_t first,
                             int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fx = at.fraction_x;
  const float* fy = at.fraction_y;
  const Float4 slack = {kAffineSlack, kAffineSlack, kAffineSlack, kAffineSlack};
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    const Float4 top_left = load4(tap), bottom_left = load4(tap + stride);
    const Float4 top = top_left + (load4(tap + 3) - top_left) * fx[x];
    const Float4 bottom = bottom_left + (load4(tap + stride + 3) - bottom_left) * fx[x];
    store3(top + (bottom - top) * fy[x] + slack, out + 3 * x);
  }
}

FOVEA_SIMD void bilinear_gray(const ImageView& in, const AffinePlaces& at, int64_t first,
                              int64_t last, uint8_t* out) {
  const uint8_t* pixels = in.pixels;
  const int64_t stride = in.row_stride;
  const int32_t *xs = at.x, *ys = at.y;
  const float* fx = at.fraction_x;
  const float* fy = at.fraction_y;
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    const float t0 = tap[0], t1 = tap[1], b0 = tap[stride], b1 = tap[stride + 1];
    const float top = t0 + (t1 - t0) * fx[x];
    const float bottom = b0 + (b1 - b0) * fx[x];
    out[x] = static_cast<uint8_t>(top + (bottom - top) * fy[x] + kAffineSlack);
  }
}

FOVEA_INLINE uint8_t cut_sum(float sum) {
  return static_cast<uint8_t>(
      static_cast<int32_t>(std::min(std::max(sum + kAffineSlack, 0.0f), 255.0f)));
}

FOVEA_SIMD void blend_two(const uint8_t* const* taps, const float* weights, int64_t count,
                          uint8_t* out) {
  const uint8_t *t0 = taps[0], *t1 = taps[1];
  const float w0 = weights[0], w1 = weights[1];
  for (int64_t i = 0; i < count; ++i) {
    out[i] = cut_sum(w0 * static_cast<float>(t0[i]) + w1 * static_cast<float>(t1[i]));
  }
}

FOVEA_SIMD void blend_four(const uint8_t* const* taps, const float* weights, int64_t count,
                           uint8_t* out) {
  const uint8_t *t0 = taps[0], *t1 = taps[1], *t2 = taps[2], *t3 = taps[3];
  const float w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
  for (int64_t i = 0; i < count; ++i) {
    out[i] = cut_sum(w0 * static_cast<float>(t0[i]) + w1 * static_cast<float>(t1[i]) +
                     w2 * static_cast<float>(t2[i]) + w3 * static_cast<float>(t3[i]));
  }
}

}  // namespace

// The order of operations is Pillow's.
FOVEA_SIMD void locate_affine_row(const AffineMatrix& matrix, int64_t y, int64_t first,
                                  int64_t last, ImageSize in, int32_t lead_x, int32_t lead_y,
                                  const AffinePlaces& places) {
  const double y_center = static_cast<double>(y) + 0.5;
  const double m0 = matrix[0], m1 = matrix[1], m2 = matrix[2];
  const double m3 = matrix[3], m4 = matrix[4], m5 = matrix[5];
  const auto in_width = static_cast<double>(in.width), in_height = static_cast<double>(in.height);
  int32_t *xs = places.x + first, *ys = places.y + first;
  float *fx = places.fraction_x + first, *fy = places.fraction_y + first;
  const auto begin = static_cast<int32_t>(first), count = static_cast<int32_t>(last - first);
  for (int32_t i = 0; i < count; ++i) {
    const double x_center = static_cast<double>(begin + i) + 0.5;
    const double x_in = m0 * x_center + m1 * y_center + m2;
    const double y_in = m3 * x_center + m4 * y_center + m5;
    // Clamped, so that far places fit an int; they are not read.
    const double x_tap = std::min(std::max(x_in, -2.0), in_width + 2) - 0.5;
    const double y_tap = std::min(std::max(y_in, -2.0), in_height + 2) - 0.5;
    const int32_t x_floor = static_cast<int32_t>(x_tap + 4) - 4;  // the sum is above 0: cut = floor
    const int32_t y_floor = static_cast<int32_t>(y_tap + 4) - 4;
    fx[i] = static_cast<float>(x_tap - x_floor);
    fy[i] = static_cast<float>(y_tap - y_floor);
    xs[i] = x_floor - lead_x;
    ys[i] = y_floor - lead_y;
  }
}

void blend_affine_row(const uint8_t* const* taps, const float* weights, int64_t num_taps,
                      int64_t count, uint8_t* out) {
  if (num_taps == 2) return blend_two(taps, weights, count, out);
  blend_four(taps, weights, count, out);
}

AffineRowKernel affine_row_kernel(int64_t channels, int64_t taps, bool is_column) {
  const bool is_rgb = channels == 3;
  if (is_column) {
    if (taps == 4) return is_rgb ? bicubic_column_rgb : bicubic_column_gray;
    return is_rgb ? bilinear_column_rgb : bilinear_column_gray;
  }
  if (taps == 4) return is_rgb ? bicubic_rgb : bicubic_gray;
  return is_rgb ? bilinear_rgb : bilinear_gray;
}

}  // namespace fovea::data
