#include "fovea/data/transforms/image/affine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/data/support.h"

namespace fovea::data {
namespace {

constexpr FillColor kAffineFill = {200, 100, 50};

Image speckled_image(ImageSize size, int64_t channels) {
  Image image;
  reshape(image, size, channels);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = static_cast<uint8_t>((i * 7919) % 251);
  }
  return image;
}

// Matrices of every kind: whole rows that move, columns, turns by right angles, mirrored, enlarged,
// far away.
std::vector<AffineMatrix> all_matrices(ImageSize size) {
  std::vector<AffineMatrix> matrices = {
      shear_x_matrix(0.27),      shear_x_matrix(-0.3),       shear_y_matrix(0.27),
      shear_y_matrix(-1.7),      translate_matrix(5, 0),     translate_matrix(-7.25, 0),
      translate_matrix(0, 4),    translate_matrix(0, -3.75), translate_matrix(2.5, -2.5),
      translate_matrix(1000, 0), translate_matrix(0, -1000), {-1, 0, 20, 0, 1, 0},
      {0.4, 0, 3, 0, 2.5, -4},   {1, 0, 0, 0, 1, 0},         {0.001, 2, 1, -3, 0.5, 9},
      {1, 0, 40'000, 0.5, 1, 0}, {0, 1, 0, 1, 0, 0},         {1, 1e-9, 0.5, 1e-9, 1, 0.5},
  };
  for (const double degrees : {1.0, 27.0, -14.5, 90.0, 180.0, 270.0, 359.9}) {
    matrices.push_back(rotate_matrix(degrees, size));
  }
  return matrices;
}

// Pillow's ImagingTransformAffine with nearest, pixel by pixel.
Image nearest_reference(const ImageView& in, const AffineMatrix& m) {
  Image out = speckled_image(in.size(), in.channels);
  const double x_start = m[2] + m[0] * 0.5 + m[1] * 0.5, y_start = m[5] + m[3] * 0.5 + m[4] * 0.5;
  const auto corner = [&](double x, double y) {
    return std::max(std::abs(x * m[0] + y * m[1] + m[2]), std::abs(x * m[3] + y * m[4] + m[5]));
  };
  const auto width = static_cast<double>(in.width), height = static_cast<double>(in.height);
  const bool is_fixed =
      !(m[1] == 0 && m[3] == 0) &&
      std::max({corner(0, 0), corner(width, 0), corner(0, height), corner(width, height)}) < 32768;
  const auto fixed = [](double value) { return std::floor(value * 65536 + 0.5); };
  std::array<double, 6> step = {m[0], m[1], x_start, m[3], m[4], y_start};
  if (is_fixed) std::transform(step.begin(), step.end(), step.begin(), fixed);
  const double unit = is_fixed ? 65536 : 1;
  double row_x = step[2], row_y = step[5];
  for (int64_t y = 0; y < out.height; ++y, row_x += step[1], row_y += step[4]) {
    double at_x = row_x, at_y = row_y;
    for (int64_t x = 0; x < out.width; ++x, at_x += step[0], at_y += step[3]) {
      const double from_x = std::floor(at_x / unit), from_y = std::floor(at_y / unit);
      const bool is_inside = from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
      for (int64_t c = 0; c < in.channels; ++c) {
        out.pixels[(y * out.width + x) * out.channels + c] =
            is_inside ? in.row(static_cast<int64_t>(
                            from_y))[static_cast<int64_t>(from_x) * in.channels + c]
                      : kAffineFill[static_cast<size_t>(c)];
      }
    }
  }
  return out;
}

TEST(AffineTest, NearestEqualsTheLoopOverPixels) {
  AffineScratch scratch;
  Image out;
  for (const int64_t channels : {1, 3}) {
    const Image whole = speckled_image({33, 41}, channels);
    // A window too: its rows do not follow each other.
    for (const ImageView& in : {ImageView(whole), ImageView(whole).crop(3, 5, {30, 36})}) {
      int number = 0;
      for (const AffineMatrix& matrix : all_matrices(in.size())) {
        affine(in, matrix, Interpolation::kNearest, kAffineFill, out, scratch);
        EXPECT_EQ(out.pixels, nearest_reference(in, matrix).pixels)
            << "matrix " << number << " channels " << channels << " width " << in.width;
        ++number;
      }
    }
  }
}

// Bilinear in float64, without any of the special cases.
double bilinear_reference(const ImageView& in, double x, double y, int64_t c) {
  const auto at = [&](double column, double row) {
    const auto i = std::clamp<int64_t>(static_cast<int64_t>(row), 0, in.height - 1);
    const auto j = std::clamp<int64_t>(static_cast<int64_t>(column), 0, in.width - 1);
    return static_cast<double>(in.row(i)[j * in.channels + c]);
  };
  const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
  const double fx = x - 0.5 - left, fy = y - 0.5 - top;
  const double upper = at(left, top) + (at(left + 1, top) - at(left, top)) * fx;
  const double lower = at(left, top + 1) + (at(left + 1, top + 1) - at(left, top + 1)) * fx;
  return upper + (lower - upper) * fy;
}

TEST(AffineTest, BilinearEqualsTheLoopOverPixels) {
  AffineScratch scratch;
  Image out;
  for (const int64_t channels : {1, 3}) {
    const Image image = speckled_image({33, 41}, channels);
    const ImageView in(image);
    int number = -1;
    for (const AffineMatrix& m : all_matrices(in.size())) {
      ++number;
      affine(in, m, Interpolation::kBilinear, kAffineFill, out, scratch);
      int64_t wrong = 0;
      for (int64_t y = 0; y < in.height; ++y) {
        for (int64_t x = 0; x < in.width; ++x) {
          const double px = static_cast<double>(x) + 0.5, py = static_cast<double>(y) + 0.5;
          const double from_x = m[0] * px + m[1] * py + m[2], from_y = m[3] * px + m[4] * py + m[5];
          const bool is_inside = from_x >= 0 && from_x < static_cast<double>(in.width) &&
                                 from_y >= 0 && from_y < static_cast<double>(in.height);
          for (int64_t c = 0; c < channels; ++c) {
            const double expected = is_inside ? bilinear_reference(in, from_x, from_y, c)
                                              : kAffineFill[static_cast<size_t>(c)];
            const double got = out.pixels[(y * in.width + x) * channels + c];
            wrong += std::abs(got - std::floor(expected + 1e-6)) > 1 ? 1 : 0;
          }
        }
      }
      EXPECT_EQ(wrong, 0) << "matrix " << number << " channels " << channels;
    }
  }
}

}  // namespace
}  // namespace fovea::data
