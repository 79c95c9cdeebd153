// A box at a random place, of fixed or random size; axes that are smaller stay as they are.
#pragma once

#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandSpatialCropConfig {
  static constexpr std::string_view kName = "rand_spatial_crop";
  std::vector<int64_t> roi_size = {};
  std::vector<int64_t> max_roi_size = {};
  bool random_center = true;
  bool random_size = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("roi_size", self.roi_size,
            "side, or [depth, height, width]; with random_size the least size; an axis with 0 or "
            "-1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("max_roi_size", self.max_roi_size,
            "with random_size: the largest size; empty, or an axis with 0 or -1: the volume's",
            {.unit = "voxels", .one_is_list = true});
    v.field("random_center", self.random_center, "false: the middle of the volume");
    v.field("random_size", self.random_size, "draw the size from roi_size to max_roi_size");
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return true; }
  ExtentRange output_range(const ExtentRange& in) const;
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch&) const;
};

// Throws ConfigError where a size of roi_size is above one of max_roi_size.
VoxelBox draw_spatial_crop(const RandSpatialCropConfig& config, const Extent& volume,
                           RandomStream& random);

}  // namespace fovea::data
