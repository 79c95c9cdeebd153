#include "fovea/data/transforms/image/affine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "fovea/core/error.h"
#include "fovea/data/transforms/image/affine_kernels.h"

namespace fovea::data {
namespace {

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

// Whether Pillow reads a pixel for output pixel (x, y); the order of operations is its own.
bool is_inside(const Sampler& sampler, int64_t x, int64_t y) {
  const AffineMatrix& m = sampler.matrix;
  const double x_center = static_cast<double>(x) + 0.5, y_center = static_cast<double>(y) + 0.5;
  const double x_in = m[0] * x_center + m[1] * y_center + m[2];
  const double y_in = m[3] * x_center + m[4] * y_center + m[5];
  return x_in >= 0 && x_in < static_cast<double>(sampler.in.width) && y_in >= 0 &&
         y_in < static_cast<double>(sampler.in.height);
}

bool is_whole_row(const Sampler& sampler) {
  return sampler.motion == Motion::kAlongX || sampler.motion == Motion::kAlongY;
}

void locate(const Sampler& sampler, int64_t y, int64_t first, int64_t last,
            AffineScratch& scratch) {
  const AffinePlaces places = {scratch.x.data(), scratch.y.data(), scratch.fraction_x.data(),
                               scratch.fraction_y.data()};
  locate_affine_row(sampler.matrix, y, first, last, sampler.in.size(),
                    static_cast<int32_t>(sampler.lead_x), static_cast<int32_t>(sampler.lead_y),
                    places);
}

// Finds the places of a row's pixels that lie inside. A line meets a rectangle in one piece, so
// both ranges are found from their ends; and where a row moves as a whole only its ends are
// located, unless it lies so near to the top or bottom that all of its pixels are edge pixels.
RowRange locate_range(const Sampler& sampler, int64_t y, int64_t width, AffineScratch& scratch) {
  constexpr int64_t kEnd = 8;  // more than there are taps
  // Kernels that go pixel by pixel load 4 bytes of each.
  const int64_t x_limit = sampler.in.width - sampler.taps_x - (is_whole_row(sampler) ? 0 : 1);
  const int64_t y_limit = sampler.in.height - sampler.taps_y;
  RowRange range{0, width, 0, 0};
  while (range.first < range.last && !is_inside(sampler, range.first, y)) ++range.first;
  while (range.last > range.first && !is_inside(sampler, range.last - 1, y)) --range.last;
  range.inner_first = range.first;
  range.inner_last = range.last;
  if (range.first == range.last) return range;
  const int64_t ends = is_whole_row(sampler) ? kEnd : width;
  locate(sampler, y, range.first, std::min(range.first + ends, range.last), scratch);
  const bool has_inner_rows = scratch.y[range.first] >= 0 && scratch.y[range.first] <= y_limit;
  const int64_t located = std::min(range.first + ends, range.last);
  const int64_t rest = has_inner_rows ? std::max(located, range.last - ends) : located;
  locate(sampler, y, rest, range.last, scratch);
  const auto is_inner = [&](int64_t x) {
    return scratch.x[x] >= 0 && scratch.x[x] <= x_limit && scratch.y[x] >= 0 &&
           scratch.y[x] <= y_limit;
  };
  while (range.inner_first < range.inner_last && !is_inner(range.inner_first)) ++range.inner_first;
  while (range.inner_last > range.inner_first && !is_inner(range.inner_last - 1)) {
    --range.inner_last;
  }
  if (is_whole_row(sampler) && range.inner_first < range.inner_last) {
    // It is read on from its first place, whatever the others round to.
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
        static_cast<uint8_t>(std::clamp(value + static_cast<double>(kAffineSlack), 0.0, 255.0));
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
  for (int64_t k = 0; k < num_taps; ++k) {
    taps[k] = sampler.in.row(scratch.y[x] + (is_along_x ? 0 : k)) +
              (scratch.x[x] + (is_along_x ? k : 0)) * channels;
  }
  blend_affine_row(taps, weights, num_taps, (range.inner_last - x) * channels, out + x * channels);
}

void sample_inner(const Sampler& sampler, const RowRange& range, AffineScratch& scratch,
                  uint8_t* out) {
  if (range.inner_first == range.inner_last) return;
  if (is_whole_row(sampler)) return blend_inner(sampler, range, scratch, out);
  const AffinePlaces places = {scratch.x.data(), scratch.y.data(), scratch.fraction_x.data(),
                               scratch.fraction_y.data()};
  const auto kernel =
      affine_row_kernel(sampler.in.channels, sampler.taps_y, sampler.motion == Motion::kColumns);
  kernel(sampler.in, places, range.inner_first, range.inner_last, out);
}

void affine_smooth(const Sampler& sampler, Image& out, AffineScratch& scratch) {
  const auto width = static_cast<size_t>(out.width);
  for (auto* buffer : {&scratch.x, &scratch.y}) buffer->resize(width);
  for (auto* buffer : {&scratch.fraction_x, &scratch.fraction_y}) buffer->resize(width);
  const int64_t channels = out.channels;
  uint8_t* row = out.pixels.data();
  for (int64_t y = 0; y < out.height; ++y, row += out.width * channels) {
    const RowRange range = locate_range(sampler, y, out.width, scratch);
    fill_row_ends(scratch.fill, channels, {range.first, range.last}, out.width, row);
    sample_inner(sampler, range, scratch, row);
    const auto edge = [&](int64_t first, int64_t last) {
      for (int64_t x = first; x < last; ++x) {
        sample_edge(sampler, scratch.x[x], scratch.y[x], scratch.fraction_x[x],
                    scratch.fraction_y[x], row + x * channels);
      }
    };
    edge(range.first, range.inner_first);
    edge(range.inner_last, range.last);
  }
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
  scratch.fill.resize(static_cast<size_t>(in.width * in.channels));
  for (size_t i = 0; i < scratch.fill.size(); ++i) {
    scratch.fill[i] = fill[i % static_cast<size_t>(in.channels)];
  }
  if (interpolation == Interpolation::kNearest) return affine_nearest(in, matrix, out, scratch);
  const int64_t taps = interpolation == Interpolation::kBicubic ? 4 : 2;
  affine_smooth(make_sampler(in, matrix, taps), out, scratch);
}

}  // namespace fovea::data
