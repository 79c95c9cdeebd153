// The transform rand_scale_intensity.
#pragma once

#include "fovea/data/transforms/volume/volume_intensity.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandScaleIntensityConfig {
  static constexpr std::string_view kName = "rand_scale_intensity";
  std::vector<double> factors = {0.1};
  double prob = 0.1;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("factors", self.factors, "f for [-f, f), or [least, largest]; values times (1 + f)",
            {.one_is_list = true});
    v.field("prob", self.prob, "probability of a change", {.min = 0, .max = 1});
    v.field("channel_wise", self.channel_wise, "one draw for each channel");
  }
  void validate(ConfigIssues& issues) const { check_interval("factors", factors, true, issues); }
  bool draws() const { return prob > 0; }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const {
    if (!random.bernoulli(prob)) return;
    multiply_intensity(
        item, draw_values(factors, 1.0, channel_wise, item.values.channels, random, scratch),
        scratch);
  }
};

}  // namespace fovea::data
