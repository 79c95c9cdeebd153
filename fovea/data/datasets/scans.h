// Volumes in files of one scan each, NIfTI, NRRD or MetaImage, with masks or labels.
#pragma once

#include <memory>
#include <string>

#include "fovea/data/datasets/volume_axes.h"
#include "fovea/data/datasets/volume_files.h"
#include "fovea/files/unpack_limit.h"

namespace fovea::data {

// The formats have the same keys and differ in which files they look for where `images` is empty.
// Each opens a file by its ending, so that the masks of one may be files of another.
struct ScanFilesConfig : OrientedFilesConfig {
  std::string frames = "channels";
  int64_t max_unpacked_bytes = kDefaultUnpackedBytes;

  VolumeAxes volume_axes() const {
    return is_canonical() ? VolumeAxes::kCanonical : VolumeAxes::kXyz;
  }

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    visit_oriented(v, self);
    v.field("frames", self.frames,
            "what the fourth dimension of a file is, or the components of its vectors",
            {.choices = {"channels", "samples"}});
    v.field("max_unpacked_bytes", self.max_unpacked_bytes, kUnpackedBytesHelp,
            {.min = 1, .unit = "bytes"});
  }
};

struct NiftiConfig : ScanFilesConfig {
  static constexpr std::string_view kName = "nifti";
  static constexpr std::string_view kImages = "*.nii*";
};

struct NrrdConfig : ScanFilesConfig {
  static constexpr std::string_view kName = "nrrd";
  static constexpr std::string_view kImages = "*.nrrd";
};

struct MetaImageConfig : ScanFilesConfig {
  static constexpr std::string_view kName = "metaimage";
  static constexpr std::string_view kImages = "*.mh*";
};

// [C, D, H, W] = [C, x, y, z], nibabel's order. Where `images` is empty it is default_images.
// Throws DataError: see find_volume_entries; with frames: samples also what open_scan throws.
std::shared_ptr<const Dataset> build_scans_dataset(const ScanFilesConfig& config,
                                                   std::string_view default_images);
template <class Config>
std::shared_ptr<const Dataset> build_scan_files(const Config& config) {
  return build_scans_dataset(config, Config::kImages);
}

}  // namespace fovea::data
