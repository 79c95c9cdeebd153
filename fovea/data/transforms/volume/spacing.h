// Resamples to voxels of a given size, trilinear; the mask takes the nearest voxel. The centre of
// the first voxel stays where it is.
#pragma once

#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct SpacingConfig {
  static constexpr std::string_view kName = "spacing";
  std::vector<double> pixdim = {};
  std::string padding_mode = "border";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("pixdim", self.pixdim,
            "distance between voxels along D, H, W; one number serves all; 0 or -1: the volume's",
            {.unit = "mm", .required = true, .one_is_list = true});
    v.field("padding_mode", self.padding_mode, "what lies beyond the last voxel",
            {.choices = {"zeros", "border", "reflection"}});
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return false; }
  ExtentRange output_range(const ExtentRange&) const { return {}; }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
