#include "fovea/data/datasets/scans.h"

#include "fovea/core/error.h"
#include "fovea/data/volume/scan_file.h"

namespace fovea::data {
namespace {

int64_t frames_of(const std::string& path, const ScanOptions& options) {
  return open_scan(path, options)->header().channels;
}

// One entry for each frame of each file; several modalities must have as many.
std::vector<VolumeEntry> split_frames(const std::vector<VolumeEntry>& entries,
                                      const ScanOptions& options) {
  std::vector<VolumeEntry> split;
  for (const VolumeEntry& entry : entries) {
    const int64_t frames = frames_of(entry.images.front(), options);
    for (const std::string& image : entry.images) {
      if (frames_of(image, options) == frames) continue;
      fail<DataError>("{}: {} frames, but {} has {}; expected as many", image,
                      frames_of(image, options), entry.images.front(), frames);
    }
    for (int64_t frame = 0; frame < frames; ++frame) {
      split.push_back(entry);
      split.back().frame = frame;
    }
  }
  return split;
}

ScanOptions options_of(const ScanFilesConfig& config) {
  return {.canonical = config.is_canonical(), .max_unpacked_bytes = config.max_unpacked_bytes};
}

}  // namespace

std::shared_ptr<const Dataset> build_scans_dataset(const ScanFilesConfig& config,
                                                   std::string_view default_images) {
  auto entries = find_volume_entries(config, std::string(default_images));
  const ScanOptions options = options_of(config);
  if (config.frames == "samples") entries = split_frames(entries, options);
  const auto open = [options](const std::string& path, std::optional<int64_t> frame) {
    ScanOptions one = options;
    one.frame = frame;
    return open_scan(path, one);
  };
  // A mask may hold one set of classes for all frames.
  const auto open_mask = [open, options](const std::string& path, std::optional<int64_t> frame) {
    const bool has_frames = frame && frames_of(path, options) > 1;
    return open(path, has_frames ? frame : std::nullopt);
  };
  return build_volume_files_dataset(config, std::move(entries),
                                    {.open_image = open,
                                     .open_mask = open_mask,
                                     .may_have_regions = scan_may_have_regions,
                                     .known_as = scan_known_as(config.is_canonical())});
}

}  // namespace fovea::data
