#include "fovea/data/transforms/affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"

namespace fovea::data {
namespace {

// Pillow cuts fractions off. Sums of float32 products that should be whole numbers can come out a
// little below them; this lifts them without touching results that are not whole.
constexpr float kTruncationSlack = 1.0f / 8192;

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

// Weights of the four taps around a place `d` behind the second one: Pillow's cubic, a = -1.
FOVEA_INLINE void cubic_weights(float d, float* weights) {
  const float square = d * d;
  const float cube = square * d;
  weights[0] = 2 * square - d - cube;
  weights[1] = 1 - 2 * square + cube;
  weights[2] = d + square - cube;
  weights[3] = cube - square;
}

struct RowRange {
  int64_t first = 0, last = 0;              // output pixels that lie inside the input
  int64_t inner_first = 0, inner_last = 0;  // and whose taps all do
};

// What the matrix leaves to do: along an axis on which every place is a pixel's centre there is one
// tap, and where places move with the output pixels a row has one set of weights.
enum class Motion { kGeneral, kAlongX, kAlongY, kColumns };

struct Sampler {
  ImageView in;
  AffineMatrix matrix;
  Motion motion;
  int64_t taps_x, taps_y;  // 1, 2 (bilinear) or 4 (bicubic)
  int64_t lead_x, lead_y;  // taps before the place
};

Motion motion_of(const AffineMatrix& m) {
  if (m[0] != 1 || m[4] != 1) return Motion::kGeneral;
  if (m[3] == 0 && m[5] == 0) return Motion::kAlongX;  // shear or translation along x
  if (m[1] != 0 || m[2] != 0) return Motion::kGeneral;
  return m[3] == 0 ? Motion::kAlongY : Motion::kColumns;  // translation, or shear along y
}

Sampler make_sampler(const ImageView& in, const AffineMatrix& matrix, int64_t taps) {
  const Motion motion = motion_of(matrix);
  const int64_t taps_x = motion == Motion::kAlongY || motion == Motion::kColumns ? 1 : taps;
  const int64_t taps_y = motion == Motion::kAlongX ? 1 : taps;
  return {in, matrix, motion, taps_x, taps_y, taps_x == 4 ? 1 : 0, taps_y == 4 ? 1 : 0};
}

// Where pixels [0, width) of output row `y` are read: the order of operations is Pillow's.
FOVEA_SIMD void locate_row(const double* matrix, int64_t y, int64_t width, double in_width,
                           double in_height, int32_t lead_x, int32_t lead_y, int32_t* xs,
                           int32_t* ys, float* fx, float* fy, uint8_t* is_inside) {
  const double y_center = static_cast<double>(y) + 0.5;
  const double m0 = matrix[0], m1 = matrix[1], m2 = matrix[2];
  const double m3 = matrix[3], m4 = matrix[4], m5 = matrix[5];
  const int32_t count = static_cast<int32_t>(width);
  for (int32_t x = 0; x < count; ++x) {
    const double x_center = static_cast<double>(x) + 0.5;
    const double x_in = m0 * x_center + m1 * y_center + m2;
    const double y_in = m3 * x_center + m4 * y_center + m5;
    is_inside[x] = (x_in >= 0) & (x_in < in_width) & (y_in >= 0) & (y_in < in_height);
    // Clamped, so that far places fit an int; they are not read.
    const double x_tap = std::min(std::max(x_in, -2.0), in_width + 2) - 0.5;
    const double y_tap = std::min(std::max(y_in, -2.0), in_height + 2) - 0.5;
    const int32_t x_floor = static_cast<int32_t>(x_tap + 4) - 4;  // the sum is above 0: cut = floor
    const int32_t y_floor = static_cast<int32_t>(y_tap + 4) - 4;
    fx[x] = static_cast<float>(x_tap - x_floor);
    fy[x] = static_cast<float>(y_tap - y_floor);
    xs[x] = x_floor - lead_x;
    ys[x] = y_floor - lead_y;
  }
}

// A line meets a rectangle in one piece, so both ranges are found from their ends.
RowRange find_range(const Sampler& sampler, int64_t width, const AffineScratch& scratch) {
  // Kernels that go pixel by pixel load 4 bytes of each.
  const bool is_by_pixel = sampler.motion == Motion::kGeneral || sampler.motion == Motion::kColumns;
  const int64_t x_limit = sampler.in.width - sampler.taps_x - (is_by_pixel ? 1 : 0);
  const int64_t y_limit = sampler.in.height - sampler.taps_y;
  const auto is_inner = [&](int64_t x) {
    return scratch.x[x] >= 0 && scratch.x[x] <= x_limit && scratch.y[x] >= 0 &&
           scratch.y[x] <= y_limit;
  };
  RowRange range{0, width, 0, 0};
  while (range.first < range.last && !scratch.is_inside[range.first]) ++range.first;
  while (range.last > range.first && !scratch.is_inside[range.last - 1]) --range.last;
  range.inner_first = range.first;
  range.inner_last = range.last;
  while (range.inner_first < range.inner_last && !is_inner(range.inner_first)) ++range.inner_first;
  while (range.inner_last > range.inner_first && !is_inner(range.inner_last - 1)) {
    --range.inner_last;
  }
  if (!is_by_pixel && range.inner_first < range.inner_last) {
    // A row that moves as a whole is read on from its first place, whatever the others round to.
    const int64_t room = x_limit - scratch.x[range.inner_first] + 1;
    range.inner_last = std::min(range.inner_last, range.inner_first + room);
  }
  return range;
}

double cubic_exact(const double* v, double d) {
  const double p2 = v[2] - v[0];
  const double p3 = 2 * (v[0] - v[1]) + v[2] - v[3];
  const double p4 = v[1] - v[0] - v[2] + v[3];
  return v[1] + d * (p2 + d * (p3 + d * p4));
}

double interpolate_exact(const double* v, int64_t taps, double d) {
  if (taps == 1) return v[0];
  return taps == 2 ? v[0] + (v[1] - v[0]) * d : cubic_exact(v, d);
}

// A pixel near the edge: places outside repeat the edge pixel.
void sample_edge(const Sampler& sampler, int64_t x, int64_t y, double fx, double fy, uint8_t* out) {
  const ImageView& in = sampler.in;
  for (int64_t c = 0; c < in.channels; ++c) {
    double rows[4];
    for (int64_t j = 0; j < sampler.taps_y; ++j) {
      const uint8_t* row = in.row(std::clamp<int64_t>(y + j, 0, in.height - 1)) + c;
      double v[4];
      for (int64_t i = 0; i < sampler.taps_x; ++i) {
        v[i] = row[std::clamp<int64_t>(x + i, 0, in.width - 1) * in.channels];
      }
      rows[j] = interpolate_exact(v, sampler.taps_x, fx);
    }
    const double value = interpolate_exact(rows, sampler.taps_y, fy);
    out[c] =
        static_cast<uint8_t>(std::clamp(value + static_cast<double>(kTruncationSlack), 0.0, 255.0));
  }
}

FOVEA_SIMD void bicubic_rgb(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                            const int32_t* ys, const float* fx, const float* fy, int64_t first,
                            int64_t last, uint8_t* out) {
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    float wx[4], wy[4];
    cubic_weights(fx[x], wx);
    cubic_weights(fy[x], wy);
    const auto row = [&](const uint8_t* first) __attribute__((always_inline)) {
      return wx[0] * load4(first) + wx[1] * load4(first + 3) + wx[2] * load4(first + 6) +
             wx[3] * load4(first + 9);
    };
    const Float4 slack = {kTruncationSlack, kTruncationSlack, kTruncationSlack, kTruncationSlack};
    const Float4 sum = wy[0] * row(tap) + wy[1] * row(tap + stride) +
                       wy[2] * row(tap + 2 * stride) + wy[3] * row(tap + 3 * stride) + slack;
    store3(clamp_to_byte(sum), out + 3 * x);
  }
}

FOVEA_SIMD void bicubic_gray(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                             const int32_t* ys, const float* fx, const float* fy, int64_t first,
                             int64_t last, uint8_t* out) {
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    float wx[4], wy[4];
    cubic_weights(fx[x], wx);
    cubic_weights(fy[x], wy);
    const Float4 columns = wy[0] * load4(tap) + wy[1] * load4(tap + stride) +
                           wy[2] * load4(tap + 2 * stride) + wy[3] * load4(tap + 3 * stride);
    const float sum = columns[0] * wx[0] + columns[1] * wx[1] + columns[2] * wx[2] +
                      columns[3] * wx[3] + kTruncationSlack;
    out[x] = static_cast<uint8_t>(std::clamp(sum, 0.0f, 255.0f));
  }
}

// The column kernels: all taps of a pixel in one column, as where a shear along y moves columns.
FOVEA_SIMD void bicubic_column_rgb(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                                   const int32_t* ys, const float*, const float* fy, int64_t first,
                                   int64_t last, uint8_t* out) {
  const Float4 slack = {kTruncationSlack, kTruncationSlack, kTruncationSlack, kTruncationSlack};
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    float wy[4];
    cubic_weights(fy[x], wy);
    const Float4 sum = wy[0] * load4(tap) + wy[1] * load4(tap + stride) +
                       wy[2] * load4(tap + 2 * stride) + wy[3] * load4(tap + 3 * stride) + slack;
    store3(clamp_to_byte(sum), out + 3 * x);
  }
}

FOVEA_SIMD void bicubic_column_gray(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                                    const int32_t* ys, const float*, const float* fy, int64_t first,
                                    int64_t last, uint8_t* out) {
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    float wy[4];
    cubic_weights(fy[x], wy);
    const float sum = wy[0] * static_cast<float>(tap[0]) + wy[1] * static_cast<float>(tap[stride]) +
                      wy[2] * static_cast<float>(tap[2 * stride]) +
                      wy[3] * static_cast<float>(tap[3 * stride]) + kTruncationSlack;
    out[x] = static_cast<uint8_t>(std::clamp(sum, 0.0f, 255.0f));
  }
}

FOVEA_SIMD void bilinear_column_rgb(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                                    const int32_t* ys, const float*, const float* fy, int64_t first,
                                    int64_t last, uint8_t* out) {
  const Float4 slack = {kTruncationSlack, kTruncationSlack, kTruncationSlack, kTruncationSlack};
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    const Float4 top = load4(tap);
    store3(top + (load4(tap + stride) - top) * fy[x] + slack, out + 3 * x);
  }
}

FOVEA_SIMD void bilinear_column_gray(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                                     const int32_t* ys, const float*, const float* fy,
                                     int64_t first, int64_t last, uint8_t* out) {
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    const float top = tap[0], bottom = tap[stride];
    out[x] = static_cast<uint8_t>(top + (bottom - top) * fy[x] + kTruncationSlack);
  }
}

FOVEA_SIMD void bilinear_rgb(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                             const int32_t* ys, const float* fx, const float* fy, int64_t first,
                             int64_t last, uint8_t* out) {
  const Float4 slack = {kTruncationSlack, kTruncationSlack, kTruncationSlack, kTruncationSlack};
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x] * 3;
    const Float4 top_left = load4(tap), bottom_left = load4(tap + stride);
    const Float4 top = top_left + (load4(tap + 3) - top_left) * fx[x];
    const Float4 bottom = bottom_left + (load4(tap + stride + 3) - bottom_left) * fx[x];
    store3(top + (bottom - top) * fy[x] + slack, out + 3 * x);
  }
}

FOVEA_SIMD void bilinear_gray(const uint8_t* pixels, int64_t stride, const int32_t* xs,
                              const int32_t* ys, const float* fx, const float* fy, int64_t first,
                              int64_t last, uint8_t* out) {
  for (int64_t x = first; x < last; ++x) {
    const uint8_t* tap = pixels + ys[x] * stride + xs[x];
    const float t0 = tap[0], t1 = tap[1], b0 = tap[stride], b1 = tap[stride + 1];
    const float top = t0 + (t1 - t0) * fx[x];
    const float bottom = b0 + (b1 - b0) * fx[x];
    out[x] = static_cast<uint8_t>(top + (bottom - top) * fy[x] + kTruncationSlack);
  }
}

// out[i] = sum over k of weights[k] * taps[k][i]: a whole row that moves by one distance.
FOVEA_SIMD void blend_rows(const uint8_t* const* taps, const float* weights, int64_t count,
                           uint8_t* out) {
  const uint8_t *t0 = taps[0], *t1 = taps[1], *t2 = taps[2], *t3 = taps[3];
  const float w0 = weights[0], w1 = weights[1], w2 = weights[2], w3 = weights[3];
  for (int64_t i = 0; i < count; ++i) {
    const float sum = w0 * static_cast<float>(t0[i]) + w1 * static_cast<float>(t1[i]) +
                      w2 * static_cast<float>(t2[i]) + w3 * static_cast<float>(t3[i]) +
                      kTruncationSlack;
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(std::min(std::max(sum, 0.0f), 255.0f)));
  }
}

// Inner pixels of a row that moves as a whole, or of two to four rows that are blended.
void blend_inner(const Sampler& sampler, const RowRange& range, const AffineScratch& scratch,
                 uint8_t* out) {
  const int64_t x = range.inner_first;
  const int64_t channels = sampler.in.channels;
  const bool is_along_x = sampler.motion == Motion::kAlongX;
  const int64_t num_taps = is_along_x ? sampler.taps_x : sampler.taps_y;
  const float d = is_along_x ? scratch.fraction_x[x] : scratch.fraction_y[x];
  float weights[4] = {1 - d, d, 0, 0};
  if (num_taps == 4) cubic_weights(d, weights);
  const uint8_t* taps[4];
  for (int64_t k = 0; k < 4; ++k) {
    const int64_t tap = std::min(k, num_taps - 1);
    taps[k] = sampler.in.row(scratch.y[x] + (is_along_x ? 0 : tap)) +
              (scratch.x[x] + (is_along_x ? tap : 0)) * channels;
  }
  blend_rows(taps, weights, (range.inner_last - x) * channels, out + x * channels);
}

void sample_inner(const Sampler& sampler, const RowRange& range, const AffineScratch& scratch,
                  uint8_t* out) {
  if (range.inner_first == range.inner_last) return;
  if (sampler.motion == Motion::kAlongX || sampler.motion == Motion::kAlongY) {
    blend_inner(sampler, range, scratch, out);
    return;
  }
  const ImageView& in = sampler.in;
  const bool is_rgb = in.channels == 3;
  auto kernel = sampler.taps_y == 4 ? (is_rgb ? bicubic_rgb : bicubic_gray)
                                    : (is_rgb ? bilinear_rgb : bilinear_gray);
  if (sampler.motion == Motion::kColumns) {
    kernel = sampler.taps_y == 4 ? (is_rgb ? bicubic_column_rgb : bicubic_column_gray)
                                 : (is_rgb ? bilinear_column_rgb : bilinear_column_gray);
  }
  kernel(in.pixels, in.row_stride, scratch.x.data(), scratch.y.data(), scratch.fraction_x.data(),
         scratch.fraction_y.data(), range.inner_first, range.inner_last, out);
}

void fill_pixels(const FillColor& fill, int64_t channels, int64_t first, int64_t last,
                 uint8_t* out) {
  if (channels == 1) {
    std::memset(out + first, fill[0], static_cast<size_t>(last - first));
    return;
  }
  for (int64_t x = first; x < last; ++x) std::memcpy(out + 3 * x, fill.data(), 3);
}

void affine_smooth(const Sampler& sampler, const FillColor& fill, Image& out,
                   AffineScratch& scratch) {
  const ImageView& in = sampler.in;
  const auto width = static_cast<size_t>(out.width);
  for (auto* buffer : {&scratch.x, &scratch.y}) buffer->resize(width);
  for (auto* buffer : {&scratch.fraction_x, &scratch.fraction_y}) buffer->resize(width);
  scratch.is_inside.resize(width);
  uint8_t* row = out.pixels.data();
  for (int64_t y = 0; y < out.height; ++y, row += out.width * out.channels) {
    locate_row(sampler.matrix.data(), y, out.width, static_cast<double>(in.width),
               static_cast<double>(in.height), static_cast<int32_t>(sampler.lead_x),
               static_cast<int32_t>(sampler.lead_y), scratch.x.data(), scratch.y.data(),
               scratch.fraction_x.data(), scratch.fraction_y.data(), scratch.is_inside.data());
    const RowRange range = find_range(sampler, out.width, scratch);
    fill_pixels(fill, out.channels, 0, range.first, row);
    fill_pixels(fill, out.channels, range.last, out.width, row);
    sample_inner(sampler, range, scratch, row);
    const auto edge = [&](int64_t first, int64_t last) {
      for (int64_t x = first; x < last; ++x) {
        sample_edge(sampler, scratch.x[x], scratch.y[x], scratch.fraction_x[x],
                    scratch.fraction_y[x], row + x * out.channels);
      }
    };
    edge(range.first, range.inner_first);
    edge(range.inner_last, range.last);
  }
}

// 16.16 fixed point, as in Pillow.
int32_t to_fixed(double value) { return static_cast<int32_t>(std::floor(value * 65536.0 + 0.5)); }

// Whether every corner fits 16.16.
bool fits_fixed(const AffineMatrix& m, ImageSize size) {
  for (const double x : {0.0, static_cast<double>(size.width)}) {
    for (const double y : {0.0, static_cast<double>(size.height)}) {
      if (std::abs(x * m[0] + y * m[1] + m[2]) >= 32768.0 ||
          std::abs(x * m[3] + y * m[4] + m[5]) >= 32768.0) {
        return false;
      }
    }
  }
  return true;
}

// Copies the pixel at each place; T is double or 16.16.
template <class T, class ToPixel>
void nearest_rows(const ImageView& in, T x_start, T y_start, const T (&step)[4], ToPixel to_pixel,
                  Image& out) {
  uint8_t* target = out.pixels.data();
  const auto bytes = static_cast<size_t>(in.channels);
  for (int64_t y = 0; y < out.height; ++y) {
    T x_in = x_start, y_in = y_start;
    for (int64_t x = 0; x < out.width; ++x, target += in.channels) {
      const int64_t from_x = to_pixel(x_in), from_y = to_pixel(y_in);
      if (from_x >= 0 && from_x < in.width && from_y >= 0 && from_y < in.height) {
        std::memcpy(target, in.row(from_y) + from_x * in.channels, bytes);
      }
      x_in += step[0];
      y_in += step[2];
    }
    x_start += step[1];
    y_start += step[3];
  }
}

void affine_nearest(const ImageView& in, const AffineMatrix& m, Image& out) {
  const double x_start = m[2] + m[0] * 0.5 + m[1] * 0.5;
  const double y_start = m[5] + m[3] * 0.5 + m[4] * 0.5;
  // Pillow adds up in float64 where nothing but scale and shift is asked for, else in 16.16.
  if ((m[1] == 0 && m[3] == 0) || !fits_fixed(m, {out.height, out.width})) {
    const double step[4] = {m[0], m[1], m[3], m[4]};
    nearest_rows<double>(
        in, x_start, y_start, step,
        [](double place) { return place < 0 ? int64_t{-1} : static_cast<int64_t>(place); }, out);
    return;
  }
  const int32_t step[4] = {to_fixed(m[0]), to_fixed(m[1]), to_fixed(m[3]), to_fixed(m[4])};
  nearest_rows<int32_t>(
      in, to_fixed(x_start), to_fixed(y_start), step,
      [](int32_t place) { return int64_t{place >> 16}; }, out);
}

double round_to_15_digits(double value) { return std::nearbyint(value * 1e15) / 1e15; }

}  // namespace

AffineMatrix shear_x_matrix(double factor) { return {1, factor, 0, 0, 1, 0}; }
AffineMatrix shear_y_matrix(double factor) { return {1, 0, 0, factor, 1, 0}; }
AffineMatrix translate_matrix(double x, double y) { return {1, 0, x, 0, 1, y}; }

AffineMatrix rotate_matrix(double degrees, ImageSize size) {
  double turned = std::fmod(degrees, 360.0);
  if (turned < 0) turned += 360.0;
  const double angle = -turned * (std::numbers::pi / 180.0);
  const double cosine = round_to_15_digits(std::cos(angle));
  const double sine = round_to_15_digits(std::sin(angle));
  const double x = static_cast<double>(size.width) / 2.0;
  const double y = static_cast<double>(size.height) / 2.0;
  return {cosine, sine,   (cosine * -x + sine * -y + 0.0) + x,
          -sine,  cosine, (-sine * -x + cosine * -y + 0.0) + y};
}

void affine(const ImageView& in, const AffineMatrix& matrix, Interpolation interpolation,
            const FillColor& fill, Image& out, AffineScratch& scratch) {
  if (in.channels != 1 && in.channels != 3) {
    fail<DataError>("an affine transform of an image with {} channels; expected 1 or 3",
                    in.channels);
  }
  reshape(out, in.size(), in.channels);
  if (interpolation == Interpolation::kNearest) {
    for (int64_t y = 0; y < out.height; ++y) {
      fill_pixels(fill, out.channels, 0, out.width,
                  out.pixels.data() + y * out.width * out.channels);
    }
    affine_nearest(in, matrix, out);
    return;
  }
  const int64_t taps = interpolation == Interpolation::kBicubic ? 4 : 2;
  affine_smooth(make_sampler(in, matrix, taps), fill, out, scratch);
}

}  // namespace fovea::data
