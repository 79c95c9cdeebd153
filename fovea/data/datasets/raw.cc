#include "fovea/data/datasets/raw.h"

#include <map>
#include <set>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/data/volume/npy_volume.h"
#include "fovea/files/byte_source.h"
#include "fovea/files/checksum.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

constexpr int64_t kMaxFileValues = int64_t{1} << 48;  // with N, of all samples

// How the numbers lie in the files of one kind, images or masks.
struct RawLayout {
  ScalarType type = ScalarType::kUint8;
  std::endian order = std::endian::little;
  std::string axes;
  std::vector<int64_t> shape;
  std::vector<int64_t> keep;
  uint64_t offset = 0;
  std::array<double, 3> spacing = {1, 1, 1};

  size_t sample_axis() const { return axes.find('N'); }
  int64_t samples() const { return sample_axis() == std::string::npos ? 1 : keep[sample_axis()]; }
  uint64_t file_bytes() const {
    return offset + static_cast<uint64_t>(checked_voxels(shape, kMaxFileValues) * bytes_of(type));
  }
};

// What tells one reading of the same bytes from another.
std::string known_as(const RawLayout& layout) {
  const auto text = fmt::format(
      "{} {} {} {} {} {}", name_of(layout.type), layout.order == std::endian::big, layout.axes,
      fmt::join(layout.shape, " "), fmt::join(layout.keep, " "), layout.offset);
  return fmt::format("raw-{:016x}", checksum(text));
}

RawLayout image_layout(const RawConfig& config) {
  RawLayout layout;
  layout.type = scalar_type_named(config.dtype);
  layout.order = config.byte_order == "big" ? std::endian::big : std::endian::little;
  layout.axes = config.axes;
  layout.shape = config.shape;
  layout.keep = config.keep.empty() ? config.shape : config.keep;
  layout.offset = static_cast<uint64_t>(config.offset);
  for (size_t i = 0; i < 3; ++i) layout.spacing[i] = config.spacing[i];
  return layout;
}

RawLayout mask_layout(const RawConfig& config) {
  RawLayout layout = image_layout(config);
  layout.type = scalar_type_named(config.mask_dtype.value_or("uint8"));
  const size_t channel = layout.axes.find('C');
  if (channel == std::string::npos) return layout;
  layout.axes.erase(channel, 1);
  layout.shape.erase(layout.shape.begin() + static_cast<ptrdiff_t>(channel));
  layout.keep.erase(layout.keep.begin() + static_cast<ptrdiff_t>(channel));
  return layout;
}

// The files of a data set, read by any number of threads.
class RawFiles {
 public:
  // paths: without repeats.
  RawFiles(RawLayout layout, const std::vector<std::string>& paths)
      : layout_(std::move(layout)), files_(paths) {
    for (size_t i = 0; i < paths.size(); ++i) {
      indices_[paths[i]] = i;
      const FileSource file(paths[i]);
      if (file.size() == layout_.file_bytes()) continue;
      fail<DataError>(
          "{}: {} bytes; expected {}: {} of {} behind {} bytes; correct shape, dtype or offset",
          file.name(), file.size(), layout_.file_bytes(), fmt::join(layout_.shape, " x "),
          name_of(layout_.type), layout_.offset);
    }
  }

  std::unique_ptr<VolumeFile> open(const std::string& path, std::optional<int64_t> frame) const {
    auto file = files_.open(indices_.at(path));
    if (file->size() != layout_.file_bytes()) {
      fail<DataError>("{}: {} bytes now, {} when it was opened; files must not change during a run",
                      file->name(), file->size(), layout_.file_bytes());
    }
    StoredVolume stored = volume_of_array(printable(path), {}, {layout_.type, layout_.order},
                                          layout_.shape, layout_.axes, frame.value_or(0));
    crop(stored);
    stored.spacing = layout_.spacing;
    return std::make_unique<ArrayFile>(std::move(file), std::move(stored), layout_.offset);
  }

 private:
  void crop(StoredVolume& stored) const {
    for (size_t i = 0; i < layout_.axes.size(); ++i) {
      const int64_t size = layout_.keep[i];
      if (layout_.axes[i] == 'C') stored.channels = size;
      if (layout_.axes[i] == 'D') stored.size.depth = size;
      if (layout_.axes[i] == 'H') stored.size.height = size;
      if (layout_.axes[i] == 'W') stored.size.width = size;
    }
  }

  RawLayout layout_;
  FilePool files_;
  std::map<std::string, size_t> indices_;  // of paths, in files_
};

}  // namespace

void RawConfig::validate(ConfigIssues& issues) const {
  VolumeFilesConfig::validate(issues);
  const auto fault = axes_fault(axes, shape.size());
  if (!fault.empty()) issues.add("axes", {"shape"}, fault);
  if (!shape.empty() && checked_voxels(shape, kMaxFileValues) < 0) {
    issues.add("shape", fmt::format("{}; expected sizes of at least 1 with a product of at most {}",
                                    fmt::join(shape, " x "), kMaxFileValues));
  }
  if (!keep.empty() && keep.size() != shape.size())
    issues.add("keep", {"shape"},
               fmt::format("{} sizes for {} dimensions", keep.size(), shape.size()));
  for (size_t i = 0; i < keep.size() && i < shape.size(); ++i) {
    if (keep[i] < 1 || keep[i] > shape[i])
      issues.add("keep", {"shape"}, fmt::format("{}; expected 1 to {}", keep[i], shape[i]));
  }
  if (spacing.size() != 3) issues.add("spacing", "expected three values, along D, H and W");
  for (const double value : spacing) {
    if (!(value > 0)) issues.add("spacing", fmt::format("{}; expected more than 0", value));
  }
}

std::shared_ptr<const Dataset> build_raw_dataset(const RawConfig& config) {
  check_config("raw", config);  // for callers that come without a recipe
  const RawLayout layout = image_layout(config);
  std::set<std::string> images, masks;
  std::vector<VolumeEntry> entries;
  for (const VolumeEntry& found : find_volume_entries(config, "*.raw")) {
    images.insert(found.images.begin(), found.images.end());
    if (!found.mask.empty()) masks.insert(found.mask);
    for (int64_t sample = 0; sample < layout.samples(); ++sample) {
      entries.push_back(found);
      if (layout.sample_axis() != std::string::npos) entries.back().frame = sample;
    }
  }
  const auto opener = [](const RawLayout& of, const std::set<std::string>& paths) -> OpenVolume {
    const auto files =
        std::make_shared<const RawFiles>(of, std::vector<std::string>(paths.begin(), paths.end()));
    return [files](const std::string& path, std::optional<int64_t> frame) {
      return files->open(path, frame);
    };
  };
  return build_volume_files_dataset(config, std::move(entries),
                                    {.open_image = opener(layout, images),
                                     .open_mask = opener(mask_layout(config), masks),
                                     .may_have_regions = [](const std::string&) { return true; },
                                     .scales_to_unit_range = config.min_max,
                                     .ranges_known_as = known_as(layout)});
}

}  // namespace fovea::data
