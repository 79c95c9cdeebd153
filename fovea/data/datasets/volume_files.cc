#include "fovea/data/datasets/volume_files.h"

#include <algorithm>
#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/mapped_file.h"
#include "fovea/data/names.h"

namespace fovea::data {
namespace {

std::string text_of(const VolumeSize& size) {
  return fmt::format("{} x {} x {}", size.depth, size.height, size.width);
}

// Files of one sample must lie over each other voxel by voxel.
void check_alike(const StoredVolume& stored, const VolumeSize& size, const std::string& orientation,
                 const std::string& image) {
  if (stored.size != size) {
    fail<DataError>("{}: {} voxels, but {} has {}; expected files of a sample to have one size",
                    stored.source, text_of(stored.size), image, text_of(size));
  }
  if (stored.orientation != orientation && !stored.orientation.empty() && !orientation.empty()) {
    fail<DataError>(
        "{}: its axes point to {}, those of {} to {}; bring them to one orientation first (for "
        "NIfTI: orientation: canonical)",
        stored.source, stored.orientation, image, orientation);
  }
}

class VolumeFilesDataset : public Dataset {
 public:
  VolumeFilesDataset(const VolumeFilesConfig& config, std::vector<VolumeEntry> entries,
                     VolumeFilesOptions options)
      : entries_(std::move(entries)),
        options_(std::move(options)),
        class_names_(config.class_names),
        has_masks_(!entries_.front().mask.empty()) {
    int64_t largest = -1;
    for (const VolumeEntry& entry : entries_) largest = std::max(largest, entry.label);
    const auto names = static_cast<int64_t>(class_names_.size());
    rule_ = {config.label_offset, config.num_classes.value_or(names), config.ignore_values};
    if (has_masks_ && rule_.num_classes == 0) {
      fail<DataError>("{}: the list names masks; give num_classes or class_names of the voxels",
                      printable(config.path));
    }
    if (rule_.num_classes == 0) rule_.num_classes = largest + 1;
    if (!has_masks_ && largest >= rule_.num_classes) {
      fail<DataError>("{}: label {}; expected 0 to {}", printable(config.path), largest,
                      rule_.num_classes - 1);
    }
  }

  int64_t size() const override { return static_cast<int64_t>(entries_.size()); }
  SampleForm form() const override { return SampleForm::kVolume; }
  bool has_masks() const override { return has_masks_; }
  const std::vector<std::string>& class_names() const override { return class_names_; }
  int64_t num_classes() const override { return rule_.num_classes; }

  void read(int64_t index, Sample& sample) const override {
    const MappedReads reads;
    read_files(entry_at(index), sample);
    reads.check([&] { return describe(index); });
  }

  VolumeSize size_of(int64_t index) const override {
    const VolumeEntry& entry = entry_at(index);
    return options_.open_image(entry.images.front(), entry.frame).size;
  }

  std::string describe(int64_t index) const override {
    const VolumeEntry& entry = entry_at(index);
    const std::string path = printable(entry.images.front());
    return entry.frame ? fmt::format("{}[{}]", path, *entry.frame) : path;
  }

 private:
  const VolumeEntry& entry_at(int64_t index) const {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    return entries_[static_cast<size_t>(index)];
  }

  void read_files(const VolumeEntry& entry, Sample& sample) const {
    Volume& volume = sample.volume;
    std::string orientation;
    volume.channels = 0;
    for (const std::string& image : entry.images) {
      const StoredVolume stored = options_.open_image(image, entry.frame);
      if (volume.channels == 0) {
        volume.size = stored.size;
        volume.spacing = stored.spacing;
        orientation = stored.orientation;
      }
      check_alike(stored, volume.size, orientation, entry.images.front());
      const int64_t done = volume.channels * volume.size.voxels();
      volume.channels += stored.channels;
      volume.values.resize(static_cast<size_t>(volume.channels * volume.size.voxels()));
      convert_values(stored, volume.values.data() + done);
    }
    if (options_.scales_to_unit_range) scale_to_unit_range(volume);
    sample.label = entry.label;
    sample.mask.size = {};
    sample.mask.classes.clear();
    if (!has_masks_) return;
    const StoredVolume stored = options_.open_mask(entry.mask, entry.frame);
    check_alike(stored, volume.size, orientation, entry.images.front());
    convert_labels(stored, rule_, sample.mask);
  }

  std::vector<VolumeEntry> entries_;
  VolumeFilesOptions options_;
  std::vector<std::string> class_names_;
  bool has_masks_;
  LabelRule rule_;
};

}  // namespace

std::shared_ptr<const Dataset> build_volume_files_dataset(const VolumeFilesConfig& config,
                                                          std::vector<VolumeEntry> entries,
                                                          VolumeFilesOptions options) {
  return std::make_shared<VolumeFilesDataset>(config, std::move(entries), std::move(options));
}

}  // namespace fovea::data
