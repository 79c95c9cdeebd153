// The transform rand_shift_intensity.
#pragma once

#include "fovea/data/transforms/volume/volume_intensity.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandShiftIntensityConfig {
  static constexpr std::string_view kName = "rand_shift_intensity";
  std::vector<double> offsets = {0.1};
  double prob = 0.1;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("offsets", self.offsets, "o for [-o, o), or [least, largest]; added to values",
            {.one_is_list = true});
    v.field("prob", self.prob, "probability of a shift", {.min = 0, .max = 1});
    v.field("channel_wise", self.channel_wise, "one draw for each channel");
  }
  void validate(ConfigIssues& issues) const { check_interval("offsets", offsets, true, issues); }
  bool draws() const { return prob > 0; }
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const {
    if (!random.bernoulli(prob)) return;
    shift_intensity(item,
                    draw_values(offsets, 0.0, channel_wise, item.values.channels, random, scratch),
                    scratch);
  }
};

}  // namespace fovea::data
