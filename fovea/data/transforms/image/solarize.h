// The transform solarize.
#pragma once

#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct SolarizeConfig {
  static constexpr std::string_view kName = "solarize";
  double p = 0.5;
  double threshold = 128;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("p", self.p, "probability", {.min = 0, .max = 1});
    v.field("threshold", self.threshold, "values from here on are inverted",
            {.min = 0, .max = 256});
  }
  bool draws() const { return p > 0 && p < 1; }
  ImageView apply(const ImageView& in, RandomStream& random, TransformScratch& scratch) const {
    if (!random.bernoulli(p)) return in;
    return run_augment_action(AugmentAction::kSolarize, threshold, Interpolation::kNearest, {}, in,
                              random, scratch);
  }
};

}  // namespace fovea::data
