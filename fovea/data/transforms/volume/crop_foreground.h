// The box that holds every voxel above a threshold. Where its margin leaves the volume, zeros (and
// class 0) are added.
#pragma once

#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct CropForegroundConfig {
  static constexpr std::string_view kName = "crop_foreground";
  double threshold = 0;
  std::vector<int64_t> channel_indices = {};
  std::vector<int64_t> margin = {0};
  bool allow_smaller = false;
  std::vector<int64_t> k_divisible = {1};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("threshold", self.threshold, "values above this are foreground");
    v.field("channel_indices", self.channel_indices, "channels that are looked at; empty: all");
    v.field("margin", self.margin,
            "added on both sides of the box, one number or one for each axis",
            {.unit = "voxels", .one_is_list = true});
    v.field("allow_smaller", self.allow_smaller, "end the margin at the border of the volume");
    v.field("k_divisible", self.k_divisible,
            "the box grows until its sides are multiples of this, one number or one for each axis",
            {.unit = "voxels", .one_is_list = true});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return false; }
  ExtentRange output_range(const ExtentRange&) const { return {}; }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
