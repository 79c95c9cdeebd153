#include "fovea/data/datasets/nifti.h"

#include "fovea/core/error.h"
#include "fovea/data/volume/nifti_file.h"

namespace fovea::data {
namespace {

int64_t frames_of(const std::string& path) {
  const NiftiHeader header = read_nifti_header(path);
  int64_t frames = 1;
  for (size_t i = 3; i < header.shape.size(); ++i) frames *= header.shape[i];
  return frames;
}

// One entry for each frame of each file; several modalities must have as many.
std::vector<VolumeEntry> split_frames(const std::vector<VolumeEntry>& entries) {
  std::vector<VolumeEntry> split;
  for (const VolumeEntry& entry : entries) {
    const int64_t frames = frames_of(entry.images.front());
    for (const std::string& image : entry.images) {
      if (frames_of(image) == frames) continue;
      fail<DataError>("{}: {} frames, but {} has {}; expected as many", image, frames_of(image),
                      entry.images.front(), frames);
    }
    for (int64_t frame = 0; frame < frames; ++frame) {
      split.push_back(entry);
      split.back().frame = frame;
    }
  }
  return split;
}

NiftiOptions options_of(const NiftiConfig& config) {
  return {.canonical = config.is_canonical(), .max_unpacked_bytes = config.max_unpacked_bytes};
}

}  // namespace

std::shared_ptr<const Dataset> build_nifti_dataset(const NiftiConfig& config) {
  auto entries = find_volume_entries(config, "*.nii*");
  if (config.frames == "samples") entries = split_frames(entries);
  const auto open = [options = options_of(config)](const std::string& path,
                                                   std::optional<int64_t> frame) {
    NiftiOptions one = options;
    one.frame = frame;
    return open_nifti(path, one);
  };
  // A mask may hold one set of classes for all frames.
  const auto open_mask = [open](const std::string& path, std::optional<int64_t> frame) {
    const bool has_frames = frame && frames_of(path) > 1;
    return open(path, has_frames ? frame : std::nullopt);
  };
  return build_volume_files_dataset(config, std::move(entries),
                                    {.open_image = open,
                                     .open_mask = open_mask,
                                     .has_regions = nifti_has_regions,
                                     .known_as = nifti_known_as(config.is_canonical())});
}

}  // namespace fovea::data
