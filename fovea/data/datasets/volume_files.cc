#include "fovea/data/datasets/volume_files.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/volume/known_ranges.h"
#include "fovea/data/volume/known_sizes.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

std::string text_of(const VolumeSize& size) {
  return fmt::format("{} x {} x {}", size.depth, size.height, size.width);
}

// The first file of a sample: the others must lie over it voxel by voxel.
struct FirstFile {
  VolumeSize size;
  std::string orientation;
  std::string path;  // empty: none yet
};

void check_alike(const StoredVolume& stored, const FirstFile& first) {
  if (stored.size != first.size) {
    fail<DataError>("{}: {} voxels, but {} has {}; expected files of a sample to have one size",
                    stored.source, text_of(stored.size), first.path, text_of(first.size));
  }
  if (stored.orientation != first.orientation && !stored.orientation.empty() &&
      !first.orientation.empty()) {
    fail<DataError>(
        "{}: its axes point to {}, those of {} to {}; bring them to one orientation first (for "
        "NIfTI: orientation: canonical)",
        stored.source, stored.orientation, first.path, first.orientation);
  }
}

class VolumeFilesDataset : public Dataset {
 public:
  VolumeFilesDataset(const VolumeFilesConfig& config, std::vector<VolumeEntry> entries,
                     VolumeFilesOptions options)
      : entries_(std::move(entries)),
        options_(std::move(options)),
        root_(config.path),
        class_names_(config.class_names),
        has_masks_(!entries_.front().mask.empty()),
        ranges_(root_, options_.ranges_known_as,
                options_.scales_to_unit_range ? entries_.size() : 0) {
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
    Volume& volume = sample.become<Volume>();
    Files files;
    FirstFile first = read_images(index, nullptr, files, volume);
    if (options_.scales_to_unit_range) {
      const auto range = ranges_.of_sample(index, [&] { return range_of(volume); });
      scale_to_unit_range(range, volume);
    }
    read_labels(index, nullptr, first, files, sample);
  }

  VolumeSize size_of(int64_t index) const override {
    const VolumeEntry& entry = entry_at(index);
    return options_.open_image(entry.images.front(), entry.frame)->header().size;
  }

  std::vector<VolumeSize> sizes(int64_t first, int64_t count) const override {
    if (options_.known_as.empty()) return Dataset::sizes(first, count);
    std::vector<std::string> paths;  // frames of a file follow each other, and have one size
    std::vector<int64_t> samples;    // the first of each path
    std::vector<size_t> places;      // [count] in paths
    for (int64_t i = first; i < first + count; ++i) {
      const std::string& path = entry_at(i).images.front();
      if (paths.empty() || paths.back() != path) {
        paths.push_back(path);
        samples.push_back(i);
      }
      places.push_back(paths.size() - 1);
    }
    const auto found = sizes_of_files(root_, options_.known_as, paths, [&](size_t i) {
      try {
        return size_of(samples[i]);
      } catch (const DataError& error) {
        throw DataError(named_message(*this, samples[i], error));
      }
    });
    std::vector<VolumeSize> sizes;
    for (const size_t place : places) sizes.push_back(found[place]);
    return sizes;
  }

  int64_t channels_of(int64_t index) const override {
    const VolumeEntry& entry = entry_at(index);
    int64_t channels = 0;
    for (const std::string& image : entry.images)
      channels += options_.open_image(image, entry.frame)->header().channels;
    return channels;
  }

  bool read_region(int64_t index, const VolumeRegion& region, Sample& sample) const override {
    Files files;
    if (!have_regions(entry_at(index), files)) return false;
    Volume& volume = sample.become<Volume>();
    FirstFile first = read_images(index, &region, files, volume);
    if (options_.scales_to_unit_range) {
      const auto range = ranges_.of_sample(index, [&] { return range_of_files(entry_at(index)); });
      scale_to_unit_range(range, volume);
    }
    read_labels(index, &region, first, files, sample);
    return true;
  }

  std::string describe(int64_t index) const override {
    const VolumeEntry& entry = entry_at(index);
    const std::string path = printable(entry.images.front());
    return entry.frame ? fmt::format("{}[{}]", path, *entry.frame) : path;
  }

 private:
  // The files of a sample, images and then the mask, each opened when it is first asked for.
  using Files = std::vector<std::unique_ptr<VolumeFile>>;

  const VolumeEntry& entry_at(int64_t index) const {
    FOVEA_CHECK(index >= 0 && index < size(), "index={}; expected 0 to {}", index, size() - 1);
    return entries_[static_cast<size_t>(index)];
  }

  VolumeFile& file_at(const VolumeEntry& entry, size_t i, Files& files) const {
    files.resize(std::max(files.size(), i + 1));
    if (files[i] == nullptr) {
      const bool is_mask = i == entry.images.size();
      files[i] = is_mask ? options_.open_mask(entry.mask, entry.frame)
                         : options_.open_image(entry.images[i], entry.frame);
    }
    return *files[i];
  }

  bool have_regions(const VolumeEntry& entry, Files& files) const {
    if (!options_.may_have_regions) return false;
    const auto& may = options_.may_have_regions;
    if (!std::all_of(entry.images.begin(), entry.images.end(), may)) return false;
    if (!entry.mask.empty() && !may(entry.mask)) return false;
    const size_t count = entry.images.size() + (entry.mask.empty() ? 0 : 1);
    for (size_t i = 0; i < count; ++i) {
      if (!file_at(entry, i, files).has_regions()) return false;
    }
    return true;
  }

  // All numbers of a file, or those of a region, if the file goes with the first one.
  StoredVolume numbers_of(int64_t index, VolumeFile& file, const VolumeRegion* region,
                          FirstFile& first) const {
    StoredVolume stored = region == nullptr ? file.read() : file.header();
    if (first.path.empty()) {
      first = {stored.size, stored.orientation, entry_at(index).images.front()};
      if (region != nullptr) check_whole(*this, index, stored.size, *region);
    }
    check_alike(stored, first);
    return region == nullptr ? stored : file.read_region(*region);
  }

  FirstFile read_images(int64_t index, const VolumeRegion* region, Files& files,
                        Volume& volume) const {
    const VolumeEntry& entry = entry_at(index);
    FirstFile first;
    volume.channels = 0;
    for (size_t i = 0; i < entry.images.size(); ++i) {
      const StoredVolume stored = numbers_of(index, file_at(entry, i, files), region, first);
      if (volume.channels == 0) {
        volume.size = stored.size;
        volume.spacing = stored.spacing;
      }
      const int64_t done = volume.channels * volume.size.voxels();
      volume.channels += stored.channels;
      volume.values.resize(static_cast<size_t>(volume.channels * volume.size.voxels()));
      convert_values(stored, volume.values.data() + done);
    }
    return first;
  }

  ValueRange range_of_files(const VolumeEntry& entry) const {
    const std::string part = entry.frame ? fmt::format("[{}]", *entry.frame) : "";
    std::optional<ValueRange> all;
    for (const std::string& image : entry.images) {
      const auto range = ranges_.of_file(image, part, [&] {
        Volume whole;
        convert_volume(options_.open_image(image, entry.frame)->read(), whole);
        return range_of(whole);
      });
      all =
          all ? ValueRange{std::min(all->low, range.low), std::max(all->high, range.high)} : range;
    }
    return *all;
  }

  void read_labels(int64_t index, const VolumeRegion* region, FirstFile& first, Files& files,
                   Sample& sample) const {
    const VolumeEntry& entry = entry_at(index);
    sample.label = entry.label;
    sample.mask.size = {};
    sample.mask.classes.clear();
    if (!has_masks_) return;
    VolumeFile& file = file_at(entry, entry.images.size(), files);
    convert_labels(numbers_of(index, file, region, first), rule_, sample.mask);
  }

  std::vector<VolumeEntry> entries_;
  VolumeFilesOptions options_;
  std::string root_;
  std::vector<std::string> class_names_;
  bool has_masks_;
  LabelRule rule_;
  mutable KnownRanges ranges_;
};

}  // namespace

std::shared_ptr<const Dataset> build_volume_files_dataset(const VolumeFilesConfig& config,
                                                          std::vector<VolumeEntry> entries,
                                                          VolumeFilesOptions options) {
  return std::make_shared<VolumeFilesDataset>(config, std::move(entries), std::move(options));
}

}  // namespace fovea::data
