// Resampling of 8-bit images in two separable passes, with the arithmetic of Pillow: the results
// are the same bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fovea/data/image_view.h"

namespace fovea::data {

enum class Interpolation { kNearest, kBilinear, kBicubic };

// "nearest", "bilinear" or "bicubic"; throws ConfigError otherwise.
Interpolation interpolation_from_name(std::string_view name);

// Weights of one pass: output element i is the sum over k < counts[i] of weights[i * taps + k] *
// in[starts[i] + k].
struct ResizeWeights {
  int64_t taps = 0;
  std::vector<int32_t> starts;   // [out_size]
  std::vector<int32_t> counts;   // [out_size]
  std::vector<int32_t> weights;  // [out_size, taps], fixed point with 22 fractional bits
  std::vector<double> exact;     // [taps], of one output element, before rounding
};

// Buffers that a thread keeps from image to image.
struct ResizeScratch {
  ResizeWeights horizontal;
  ResizeWeights vertical;
  Image middle;                    // between the passes
  std::vector<int32_t> sums;       // [out W * C]
  std::vector<int32_t> positions;  // nearest: [out W]
};

// Resizes `in` to `size`. Bilinear and bicubic (a = -0.5) widen their support when shrinking
// (antialiasing). `out` must not be the image that `in` looks at.
void resize(const ImageView& in, ImageSize size, Interpolation interpolation, Image& out,
            ResizeScratch& scratch);

}  // namespace fovea::data
