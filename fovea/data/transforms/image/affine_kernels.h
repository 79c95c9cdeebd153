// The rows of an affine warp: the part that is worth vectorising, and the copies of nearest.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/affine.h"

namespace fovea::data {

// Pillow cuts fractions off. Sums of float32 products that should be whole numbers can come out a
// little below them; this lifts them without touching results that are not whole.
inline constexpr float kAffineSlack = 1.0f / 8192;

// Weights of the four taps around a place `d` behind the second one: Pillow's cubic, a = -1.
inline __attribute__((always_inline)) void cubic_weights(float d, float* weights) {
  const float square = d * d;
  const float cube = square * d;
  weights[0] = 2 * square - d - cube;
  weights[1] = 1 - 2 * square + cube;
  weights[2] = d + square - cube;
  weights[3] = cube - square;
}

// Where the pixels of one output row are read: [W] each.
struct AffinePlaces {
  int32_t *x, *y;                  // first tap
  float *fraction_x, *fraction_y;  // how far behind the middle tap
};

// Fills in output pixels [first, last) of row `y`; lead: taps before the place. Places far outside
// of an image of size `in` are clamped, so that they fit.
void locate_affine_row(const AffineMatrix& matrix, int64_t y, int64_t first, int64_t last,
                       ImageSize in, int32_t lead_x, int32_t lead_y, const AffinePlaces& places);

// Output pixels [first, last), all taps of which lie inside of `in`, with a byte behind each of
// them. out: the row.
using AffineRowKernel = void (*)(const ImageView& in, const AffinePlaces& places, int64_t first,
                                 int64_t last, uint8_t* out);

// channels: 1 or 3; taps: 2 (bilinear) or 4 (bicubic); is_column: they lie in one column.
AffineRowKernel affine_row_kernel(int64_t channels, int64_t taps, bool is_column);

// out[i] = sum over k < num_taps, 2 or 4, of weights[k] * taps[k][i]: a whole row that moves by one
// distance.
void blend_affine_row(const uint8_t* const* taps, const float* weights, int64_t num_taps,
                      int64_t count, uint8_t* out);

// A row's pixels outside of `range`, from `fill` [W, C].
void fill_row_ends(const std::vector<uint8_t>& fill, int64_t channels, PixelRange range,
                   int64_t width, uint8_t* out);

// The nearest pixel for each, with Pillow's arithmetic. Needs scratch.fill.
void affine_nearest(const ImageView& in, const AffineMatrix& matrix, Image& out,
                    AffineScratch& scratch);

}  // namespace fovea::data
