// Gaussian blurs of 8-bit images: Pillow's chain of box filters, with the same bytes, and
// torchvision's kernel of fixed size in float32, within one grey level.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"

namespace fovea::data {

// Buffers that a thread keeps from image to image.
struct BlurScratch {
  Image middle;               // between passes
  std::vector<uint8_t> row;   // one row with its repeated or mirrored ends
  std::vector<float> floats;  // [H, W * C], between torchvision's two passes
  std::vector<float> kernel;
  std::vector<float> sums;  // [W * C]
};

// Pillow's ImageFilter.GaussianBlur: three extended box filters along x, then along y (Gwosdek et
// al., "Theoretical foundations of Gaussian convolution by extended box filtering", 2011).
// radius: standard deviation in pixels, 0 copies. in [H, W, C] -> out [H, W, C].
void gaussian_blur_pillow(const ImageView& in, double radius, Image& out, BlurScratch& scratch);

// torchvision's gaussian_blur: an odd kernel of `kernel_size` pixels, ends mirrored without the
// edge pixel. Throws DataError: an image of no more than kernel_size / 2 pixels along an axis.
void gaussian_blur_kernel(const ImageView& in, int64_t kernel_size, double sigma, Image& out,
                          BlurScratch& scratch);

}  // namespace fovea::data
