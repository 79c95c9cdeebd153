#include "fovea/data/transforms/image/horizontal_flip.h"

namespace fovea::data {

bool HorizontalFlipConfig::join(FirstCrop& crop, RandomStream& random) const {
  if (crop.takes == FirstCrop::Takes::kNothing) return false;
  crop.is_mirrored = random.bernoulli(p);
  crop.takes = FirstCrop::Takes::kNothing;
  return true;
}

ImageView HorizontalFlipConfig::apply(const ImageView& in, RandomStream& random,
                                      TransformScratch& scratch) const {
  if (!random.bernoulli(p)) return in;
  scratch.geometry.append_horizontal_flip();
  Image& out = scratch.next_image();
  reshape(out, in.size(), in.channels);
  uint8_t* target = out.pixels.data();
  for (int64_t y = 0; y < in.height; ++y) {
    const uint8_t* pixel = in.row(y) + (in.width - 1) * in.channels;
    for (int64_t x = 0; x < in.width; ++x, pixel -= in.channels) {
      for (int64_t c = 0; c < in.channels; ++c) *target++ = pixel[c];
    }
  }
  return ImageView(out);
}

}  // namespace fovea::data
