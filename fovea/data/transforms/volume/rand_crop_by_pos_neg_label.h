// A box around a voxel that is foreground (class above 0) with probability pos / (pos + neg), else
// background (class 0). Voxels of class -1 are neither.
#pragma once

#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct RandCropByPosNegLabelConfig {
  static constexpr std::string_view kName = "rand_crop_by_pos_neg_label";
  std::vector<int64_t> spatial_size = {};
  double pos = 1;
  double neg = 1;
  std::optional<double> image_threshold = {};
  bool allow_smaller = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("spatial_size", self.spatial_size,
            "side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("pos", self.pos, "weight of boxes around foreground", {.min = 0});
    v.field("neg", self.neg, "weight of boxes around background", {.min = 0});
    v.field("image_threshold", self.image_threshold,
            "background counts only where some channel is above this; unset: everywhere");
    v.field("allow_smaller", self.allow_smaller,
            "keep an axis that is smaller than the box; false: an error");
  }
  void validate(ConfigIssues& issues) const;
  bool draws() const { return true; }
  ExtentRange output_range(const ExtentRange& in) const;
  void apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const;
};

// How many voxels a box may be drawn around; see RandCropByPosNegLabelConfig.
struct LabelCounts {
  int64_t foreground = 0;
  int64_t background = 0;
};

LabelCounts count_labels(const VolumeItem& item, const RandCropByPosNegLabelConfig& config,
                         VolumeScratch& scratch);

// Place of the k-th foreground or background voxel in the order [D, H, W]. Needs the counts by
// plane that count_labels left in `scratch`.
Extent find_label(const VolumeItem& item, const RandCropByPosNegLabelConfig& config,
                  bool is_foreground, int64_t k, const VolumeScratch& scratch);

// The box around `center`, moved inside.
VoxelBox box_around(const Extent& center, const Extent& size, const Extent& volume);

// Throws DataError: no mask, nothing to draw around, a box larger than the volume.
VoxelBox draw_pos_neg_crop(const RandCropByPosNegLabelConfig& config, const VolumeItem& item,
                           RandomStream& random, VolumeScratch& scratch);

}  // namespace fovea::data
