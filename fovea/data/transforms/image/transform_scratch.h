// What transforms of images share: the buffers of a thread, and how sizes are written and rounded.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"
#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/first_crop.h"
#include "fovea/data/transforms/image/resize_image.h"
#include "fovea/data/transforms/sample_geometry.h"

namespace fovea::data {

// Buffers that a thread keeps from image to image. Results alternate between the two images, so a
// transform never writes what it reads.
struct TransformScratch {
  Image images[2];
  int next = 0;
  ResizeScratch resize;
  FirstCropScratch first_crop;
  Image decoded;
  AugmentScratch augment;
  SampleGeometry geometry;  // of the sample in work: every transform that moves pixels adds to it

  Image& next_image() { return images[next ^= 1]; }
  // Where its time goes is counted; null: nobody asks.
  StageTimer* timer() const { return first_crop.timer; }
  void set_timer(StageTimer* timer) { first_crop.timer = timer; }
};

// [height, width], or one number for both.
inline ImageSize exact_size(const std::vector<int64_t>& size) {
  return {size.front(), size.back()};
}

// Python's round(): halves go to the even neighbour.
inline int64_t round_half_even(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

}  // namespace fovea::data
