// The transform grayscale.
#pragma once

#include "fovea/data/transforms/image/color_ops.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct GrayscaleConfig {
  static constexpr std::string_view kName = "grayscale";
  double p = 0.1;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
  }
  bool draws() const { return p > 0 && p < 1; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    if (!random.bernoulli(p) || in.channels == 1) return in;
    Image& out = scratch.next_image();
    to_grayscale(in, out);
    return ImageView(out);
  }
};

}  // namespace fovea::data
