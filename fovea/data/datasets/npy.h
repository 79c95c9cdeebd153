// NumPy arrays in .npy files, one a sample.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/datasets/volume_files.h"

namespace fovea::data {

struct NpyConfig : VolumeFilesConfig {
  static constexpr std::string_view kName = "npy";
  std::string axes = "DHW";
  std::string mask_axes = {};
  bool min_max = false;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    visit_files(v, self);
    v.field("axes", self.axes,
            "what the dimensions of an array are: a letter of C, D, H, W for each; WHD swaps the "
            "first and last axis of DHW");
    v.field("mask_axes", self.mask_axes, "the same for masks; default: axes without C");
    v.field("min_max", self.min_max, "scale each volume to [0, 1] by its minimum and maximum");
  }
  void validate(ConfigIssues& issues) const;
};

// Where `images` is empty it is "*.npy". Throws DataError: see find_volume_entries.
std::shared_ptr<const Dataset> build_npy_dataset(const NpyConfig& config);

}  // namespace fovea::data
