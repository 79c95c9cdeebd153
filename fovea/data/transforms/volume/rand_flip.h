// The transform rand_flip.
#pragma once

#include "fovea/data/transforms/volume/volume_moves.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandFlipConfig {
  static constexpr std::string_view kName = "rand_flip";
  double prob = 0.1;
  std::vector<int64_t> spatial_axis = {};
  bool per_axis = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("prob", self.prob, "probability of a flip", {.min = 0, .max = 1});
    v.field("spatial_axis", self.spatial_axis,
            "axes that are flipped: 0 depth, 1 height, 2 width; empty: all", {.one_is_list = true});
    v.field("per_axis", self.per_axis, "one draw for each axis; false: one draw for all together");
  }
  void validate(ConfigIssues& issues) const { check_axes("spatial_axis", spatial_axis, issues); }
  bool draws() const { return prob > 0 && prob < 1; }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch&) const {
    static const std::vector<int64_t> kAllAxes = {0, 1, 2};
    const auto& axes = spatial_axis.empty() ? kAllAxes : spatial_axis;
    bool is_drawn = per_axis || random.bernoulli(prob);
    for (const int64_t axis : axes) {
      if (per_axis) is_drawn = random.bernoulli(prob);
      if (is_drawn) flip(item, static_cast<int>(axis));
    }
  }
};

}  // namespace fovea::data
