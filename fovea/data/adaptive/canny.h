// Gaussian blur and Canny's edge detector (Canny 1986) on 8-bit images, with the results of
// OpenCV's GaussianBlur(sigma 0) and Canny(aperture 3, |dx| + |dy|), bit for bit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "fovea/data/adaptive/image_rows.h"

namespace fovea::data::patching {

struct CannyOptions {
  int64_t blur_size = 1;  // side of the Gaussian kernel: 1 (none), 3 or 5
  int64_t low = 50;       // gradients above it can be edges ...
  int64_t high = 100;     // ... where they are joined to one above this
};

// Buffers that a thread keeps from image to image.
struct CannyScratch {
  std::vector<uint8_t> source;    // ring of source rows, planar
  std::vector<int16_t> blurred;   // ring of blurred rows, planar
  std::vector<int16_t> gradient;  // rings of magnitudes and directions
  std::vector<uint16_t> sums;
  std::vector<uint64_t> candidates;  // [H, ceil(W / 64)]
  std::vector<uint64_t> strong;      // [H, ceil(W / 64)]
  std::vector<uint8_t> is_dirty;
};

// Edges of an image with any number of channels; of several, the one with the largest gradient
// counts, pixel by pixel. Returns one bit a pixel, [H, ceil(W / 64)], lowest bit first, in a buffer
// of `scratch`. Throws Error where blur_size is not 1, 3 or 5.
std::span<const uint64_t> canny(const ImageRows& image, const CannyOptions& options,
                                CannyScratch& scratch);

// |dx| + |dy| of the blurred image under Sobel's operator, of the channel where it is largest, row
// by row: take(y, magnitudes [W]). Throws as canny does.
void gradient_magnitude(const ImageRows& image, int64_t blur_size,
                        const std::function<void(int64_t y, const int16_t* row)>& take,
                        CannyScratch& scratch);

// Adds 1 to each of `counts` [W] whose bit is set.
void add_bits(const uint64_t* bits, int64_t width, uint8_t* counts);

}  // namespace fovea::data::patching
