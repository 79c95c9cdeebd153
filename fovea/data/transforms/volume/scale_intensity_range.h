// Windowing: (v - a_min) / (a_max - a_min) * (b_max - b_min) + b_min.
#pragma once

#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct ScaleIntensityRangeConfig {
  static constexpr std::string_view kName = "scale_intensity_range";
  double a_min = 0;
  double a_max = 1;
  double b_min = 0;
  double b_max = 1;
  bool clip = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("a_min", self.a_min, "value that becomes b_min, such as -1000 HU", {.required = true});
    v.field("a_max", self.a_max, "value that becomes b_max", {.required = true});
    v.field("b_min", self.b_min, "low end of what comes out");
    v.field("b_max", self.b_max, "high end of what comes out");
    v.field("clip", self.clip, "values outside become b_min or b_max");
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return false; }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
