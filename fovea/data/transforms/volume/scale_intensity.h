// The smallest value becomes minv, the largest maxv. A constant volume becomes value * minv.
#pragma once

#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct ScaleIntensityConfig {
  static constexpr std::string_view kName = "scale_intensity";
  double minv = 0;
  double maxv = 1;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("minv", self.minv, "smallest value that comes out");
    v.field("maxv", self.maxv, "largest value that comes out");
    v.field("channel_wise", self.channel_wise, "smallest and largest of each channel by itself");
  }
  bool draws() const { return false; }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
