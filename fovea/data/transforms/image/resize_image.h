// Resampling of 8-bit images in two separable passes, with the arithmetic of Pillow: the results
// are the same bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/resample.h"

namespace fovea::data {

// "nearest", "bilinear" or "bicubic"; throws ConfigError otherwise.
Interpolation interpolation_from_name(std::string_view name);

// Buffers that a thread keeps from image to image.
struct ResizeScratch {
  Resampler resampler;
  std::vector<uint8_t> copies;     // rows at the end of an image
  std::vector<int32_t> positions;  // nearest: [out W]
};

// Resizes `in` to `size`. Bilinear and bicubic (a = -0.5) widen their support when shrinking
// (antialiasing). `out` must not be the image that `in` looks at.
void resize(const ImageView& in, ImageSize size, Interpolation interpolation, Image& out,
            ResizeScratch& scratch);

}  // namespace fovea::data
