// The middle of the volume; axes that are smaller stay as they are.
#pragma once

#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_moves.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct CenterSpatialCropConfig {
  static constexpr std::string_view kName = "center_spatial_crop";
  std::vector<int64_t> roi_size = {};

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("roi_size", self.roi_size,
            "side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
  }
  void validate(ConfigIssues& issues) const { check_size("roi_size", roi_size, issues); }
  bool draws() const { return false; }
  ExtentRange output_range(const ExtentRange& in) const { return at_most(roi_size, in); }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch&) const {
    const VoxelBox box = center_box(item.values.size, size_or(roi_size, item.values.size));
    crop(item, box.start, box.size);
  }
};

}  // namespace fovea::data
