// (v - mean) / std, of the volume itself or given. A standard deviation of 0 counts as 1.
#pragma once

#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct NormalizeIntensityConfig {
  static constexpr std::string_view kName = "normalize_intensity";
  std::vector<double> subtrahend = {};
  std::vector<double> divisor = {};
  bool nonzero = false;
  bool channel_wise = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("subtrahend", self.subtrahend,
            "what is subtracted, one number or one for each channel; empty: the volume's mean",
            {.one_is_list = true});
    v.field("divisor", self.divisor,
            "what is divided by, one number or one for each channel; empty: the volume's standard "
            "deviation",
            {.one_is_list = true});
    v.field("nonzero", self.nonzero, "zeros do not count and stay zero");
    v.field("channel_wise", self.channel_wise, "mean and deviation of each channel by itself");
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return false; }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
