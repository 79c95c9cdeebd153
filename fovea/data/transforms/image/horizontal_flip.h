// The transform horizontal_flip.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct HorizontalFlipConfig {
  static constexpr std::string_view kName = "horizontal_flip";
  static constexpr std::string_view kOfVolumes = "rand_flip";
  double p = 0.5;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability of a flip", {.min = 0, .max = 1});
  }
  bool draws() const { return p > 0 && p < 1; }
  bool join(FirstCrop& crop, RandomStream& random) const;
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const;
};

}  // namespace fovea::data
