// The transform vertical_flip.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct VerticalFlipConfig {
  static constexpr std::string_view kName = "vertical_flip";
  static constexpr std::string_view kOfVolumes = "rand_flip";
  double p = 0.5;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability of a flip", {.min = 0, .max = 1});
  }
  bool draws() const { return p > 0 && p < 1; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    if (!random.bernoulli(p)) return in;
    scratch.geometry.append_vertical_flip();
    ImageView flipped = in;
    flipped.pixels = in.row(in.height - 1);
    flipped.row_stride = -in.row_stride;
    return flipped;
  }
};

}  // namespace fovea::data
