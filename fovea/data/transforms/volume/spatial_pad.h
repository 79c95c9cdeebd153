// Pads to at least this size; axes that are larger stay as they are.
#pragma once

#include "fovea/data/transforms/volume/extents.h"
#include "fovea/data/transforms/volume/volume_transform.h"

namespace fovea::data {

struct SpatialPadConfig {
  static constexpr std::string_view kName = "spatial_pad";
  std::vector<int64_t> spatial_size = {};
  std::string method = "symmetric";
  std::string mode = "constant";
  double value = 0;
  int64_t mask_value = 0;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("spatial_size", self.spatial_size,
            "least side, or [depth, height, width]; an axis with 0 or -1 is left alone",
            {.unit = "voxels", .required = true, .one_is_list = true});
    v.field("method", self.method, "on both sides of an axis, or at its end only",
            {.choices = {"symmetric", "end"}});
    v.field("mode", self.mode, "what the new voxels hold",
            {.choices = {"constant", "edge", "reflect", "wrap"}});
    v.field("value", self.value, "value of the new voxels, for mode constant");
    v.field("mask_value", self.mask_value,
            "class of the new voxels of the mask, for mode constant; -1: not labelled");
  }
  void validate(ConfigIssues& issues) const { check_size("spatial_size", spatial_size, issues); }
  bool draws() const { return false; }
  ExtentRange output_range(const ExtentRange& in) const { return at_least(spatial_size, in); }
  void apply(VolumeItem& item, RandomStream&, VolumeScratch& scratch) const;
};

}  // namespace fovea::data
