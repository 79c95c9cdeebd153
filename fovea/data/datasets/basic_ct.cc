#include "fovea/data/datasets/basic_ct.h"

#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/volume_files.h"
#include "fovea/data/volume/scan_file.h"
#include "fovea/files/file_endings.h"
#include "fovea/files/glob.h"
#include "fovea/files/unread_files.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

// "scan_image_7.nii.gz" -> "_7": what follows the last "image" of the name, without the ending.
std::string suffix_of(const std::string& path) {
  std::string stem = fs::path(path).filename().string();
  stem.resize(stem.rfind(".nii"));
  const size_t at = stem.rfind("image");
  return at == std::string::npos ? stem : stem.substr(at + 5);
}

std::string mask_of(const std::string& root, const std::string& image) {
  const fs::path folder = fs::path(root) / "labelsTr";
  const std::string stem = "label" + suffix_of(image);
  for (const char* ending : {".nii", ".nii.gz"}) {
    if (is_there(folder / (stem + ending))) return (folder / (stem + ending)).string();
  }
  fail<DataError>("{}: found neither {}.nii nor {}.nii.gz in {}; each volume needs its mask",
                  printable(image), printable(stem), printable(stem), printable(folder.string()));
}

}  // namespace

void BasicCtConfig::validate(ConfigIssues& issues) const {
  if (start >= end)
    issues.add("end", {"start"}, fmt::format("{}; expected more than start ({})", end, start));
  if (!class_names.empty() && num_classes != static_cast<int64_t>(class_names.size())) {
    issues.add(
        "class_names", {"num_classes"},
        fmt::format("{} names for {} classes; give as many", class_names.size(), num_classes));
  }
}

std::shared_ptr<const Dataset> build_basic_ct_dataset(const BasicCtConfig& config) {
  std::vector<std::string> images;
  for (const auto& found : glob(config.path, "imagesTr/*.nii*")) {
    if (found.stars[1].empty() || found.stars[1] == ".gz") images.push_back(found.path);
  }
  warn_of_unread_files((fs::path(config.path) / "imagesTr").string(), "NIfTI (.nii, .nii.gz)",
                       is_nifti_name);
  const auto count = static_cast<double>(images.size());
  const auto first = static_cast<size_t>(config.start * count);
  const auto last = static_cast<size_t>(config.end * count);
  std::vector<VolumeEntry> entries;
  for (size_t i = first; i < last; ++i) {
    VolumeEntry entry{.images = {images[i]}};
    if (config.masks) entry.mask = mask_of(config.path, images[i]);
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) {
    fail<DataError>("{}: {} files in imagesTr/*.nii[.gz], of which {} to {} are wanted",
                    printable(config.path), images.size(), first, last);
  }
  const ScanOptions options{.max_unpacked_bytes = config.max_unpacked_bytes};
  const auto open = [options](const std::string& path, std::optional<int64_t>) {
    return open_scan(path, options);
  };
  VolumeFilesConfig files;
  files.path = config.path;
  files.class_names = config.class_names;
  files.num_classes = config.num_classes;
  files.label_offset = config.label_offset;
  files.ignore_values = config.ignore_values;
  return build_volume_files_dataset(files, std::move(entries),
                                    {.open_image = open,
                                     .open_mask = open,
                                     .may_have_regions = scan_may_have_regions,
                                     .known_as = scan_known_as(false),
                                     .scales_to_unit_range = true,
                                     .ranges_known_as = scan_known_as(false)});
}

}  // namespace fovea::data
