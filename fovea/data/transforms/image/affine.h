// Affine warps of 8-bit images that keep the size, with the sampling of Pillow's Image.transform:
// nearest gives the same bytes; bilinear and bicubic are computed in float32 where Pillow uses
// float64, so that single pixels may differ by one grey level.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/resize_image.h"

namespace fovea::data {

// Output pixel (x, y) is read at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]); the centre of
// the first pixel is (0.5, 0.5).
using AffineMatrix = std::array<double, 6>;

// Value of pixels that lie outside of the input. Gray images take the first.
using FillColor = std::array<uint8_t, 3>;

constexpr FillColor kGrayFill = {128, 128, 128};

// Places and weights of one row, kept from call to call.
struct AffineScratch {
  std::vector<uint8_t> fill;                  // [W, C] a row of the fill colour
  std::vector<int32_t> x, y;                  // [W] first tap
  std::vector<float> fraction_x, fraction_y;  // [W]
};

AffineMatrix shear_x_matrix(double factor);
AffineMatrix shear_y_matrix(double factor);
// Pixels by which the place of reading moves.
AffineMatrix translate_matrix(double x, double y);
// Counterclockwise around the centre, as Pillow's Image.rotate without expand.
AffineMatrix rotate_matrix(double degrees, ImageSize size);

// in [H, W, C] with C = 1 or 3 -> out [H, W, C]. Throws DataError: another number of channels.
// `out` must not be the image that `in` looks at.
void affine(const ImageView& in, const AffineMatrix& matrix, Interpolation interpolation,
            const FillColor& fill, Image& out, AffineScratch& scratch);

}  // namespace fovea::data
