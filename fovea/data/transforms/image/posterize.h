// The transform posterize.
#pragma once

#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct PosterizeConfig {
  static constexpr std::string_view kName = "posterize";
  double p = 0.5;
  int64_t bits = 4;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("bits", self.bits, "highest bits that are kept", {.min = 0, .max = 8});
  }
  bool draws() const { return p > 0 && p < 1; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    if (!random.bernoulli(p)) return in;
    return run_augment_action(AugmentAction::kPosterize, static_cast<double>(bits),
                              Interpolation::kNearest, {}, in, random, scratch);
  }
};

}  // namespace fovea::data
