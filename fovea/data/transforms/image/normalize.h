// (byte / 255 - mean) / std by channel; the last of the list. Without it images are byte / 255.
#pragma once

#include "fovea/data/transforms/image/image_transform.h"

namespace fovea::data {

struct NormalizeConfig {
  static constexpr std::string_view kName = "normalize";
  static constexpr bool kIsOfValues = true;
  static constexpr std::string_view kOfVolumes = "normalize_intensity";
  std::vector<double> mean = {0.5};
  std::vector<double> std = {0.5};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("mean", self.mean,
            "mean of each channel on a scale of 0 to 1; one number serves all channels",
            {.one_is_list = true});
    v.field("std", self.std, "standard deviation of each channel; one number serves all channels",
            {.one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return false; }
  // Fills mean and std with the statistics of a named data set.
  bool apply_preset(const std::string& name);
  static std::vector<std::string> preset_names();
};

}  // namespace fovea::data
