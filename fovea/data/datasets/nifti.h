// NIfTI volumes with masks or labels.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/datasets/volume_files.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

struct NiftiConfig : OrientedFilesConfig {
  static constexpr std::string_view kName = "nifti";
  std::string frames = "channels";
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    visit_oriented(v, self);
    v.field("frames", self.frames, "what the fourth dimension of a file is",
            {.choices = {"channels", "samples"}});
    v.field("max_unpacked_bytes", self.max_unpacked_bytes, kUnpackedBytesHelp,
            {.min = 1, .unit = "bytes"});
  }
};

// [C, D, H, W] = [C, x, y, z], nibabel's order. Where `images` is empty it is "*.nii*". Throws
// DataError: see find_volume_entries; with frames: samples also what read_nifti_header throws.
std::shared_ptr<const Dataset> build_nifti_dataset(const NiftiConfig& config);

}  // namespace fovea::data
