// Resamples to a fixed size, as MONAI's Resize: trilinear for values. The mask takes the nearest
// voxel.
#pragma once

#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct SpatialResizeConfig {
  static constexpr std::string_view kName = "spatial_resize";
  std::vector<int64_t> spatial_size = {};
  bool anti_aliasing = false;
  std::string mask_mode = "nearest-exact";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("spatial_size", self.spatial_size,
            "side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("anti_aliasing", self.anti_aliasing,
            "smooth first along axes that shrink, with a sigma of (factor - 1) / 2");
    v.field("mask_mode", self.mask_mode,
            "nearest-exact: the voxel whose centre is nearest, in step with the values; nearest: "
            "the one at floor(i * in / out)",
            {.choices = {"nearest-exact", "nearest"}});
  }
  void validate(ConfigIssues& issues) const { check_size("spatial_size", spatial_size, issues); }
  bool draws() const { return false; }
  ExtentRange output_range(const ExtentRange& in) const { return exactly(spatial_size, in); }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
