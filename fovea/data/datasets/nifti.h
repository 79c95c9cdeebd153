// NIfTI volumes with masks or labels.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/datasets/volume_files.h"

namespace fovea::data {

struct NiftiConfig : VolumeFilesConfig {
  static constexpr std::string_view kName = "nifti";
  std::string orientation = "as_stored";
  std::string frames = "channels";

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    visit_files(v, self);
    v.field("orientation", self.orientation,
            "canonical: axes are swapped and flipped to right-anterior-superior",
            {.choices = {"as_stored", "canonical"}});
    v.field("frames", self.frames, "what the fourth dimension of a file is",
            {.choices = {"channels", "samples"}});
  }
};

// [C, D, H, W] = [C, x, y, z], nibabel's order. Where `images` is empty it is "*.nii*". Throws
// DataError: see find_volume_entries; with frames: samples also what read_nifti_header throws.
std::shared_ptr<const Dataset> build_nifti_dataset(const NiftiConfig& config);

}  // namespace fovea::data
