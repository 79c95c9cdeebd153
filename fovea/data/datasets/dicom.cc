#include "fovea/data/datasets/dicom.h"

#include <filesystem>
#include <map>

#include "fovea/core/error.h"
#include "fovea/data/volume/dicom.h"
#include "fovea/data/volume/npy_volume.h"
#include "fovea/data/volume/scan_file.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {
namespace {

namespace fs = std::filesystem;

// Files in each folder when the data set was opened: a series without its last slice would else be
// a smaller volume, and nobody would know.
using FileCounts = std::map<std::string, int64_t>;

// 0: not a folder.
int64_t count_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return 0;
  int64_t count = 0;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    ++count;
  }
  if (error) fail<DataError>("{}: cannot list the folder ({})", printable(path), error.message());
  return count;
}

std::unique_ptr<VolumeFile> open_series(const std::string& path, const DicomOptions& options,
                                        const FileCounts& counts) {
  const auto known = counts.find(path);
  const int64_t count = count_files(path);
  if (known != counts.end() && known->second != count) {
    fail<DataError>(
        "{}: {} files, but {} when the data set was opened; files must not change "
        "during a run",
        printable(path), count, known->second);
  }
  return open_dicom_series(path, options);
}

}  // namespace

std::shared_ptr<const Dataset> build_dicom_dataset(const DicomConfig& config) {
  auto entries = find_volume_entries(config, "*");
  auto counts = std::make_shared<FileCounts>();
  for (const VolumeEntry& entry : entries) {
    for (const std::string& image : entry.images) (*counts)[image] = count_files(image);
    if (!entry.mask.empty()) (*counts)[entry.mask] = count_files(entry.mask);
  }
  const bool is_canonical = config.is_canonical();
  const DicomOptions options{.series_uid = config.series_uid, .canonical = is_canonical};
  const auto open = [counts, options](const std::string& path, std::optional<int64_t>) {
    return open_series(path, options, *counts);
  };
  const auto open_mask = [counts, is_canonical](
                             const std::string& path,
                             std::optional<int64_t>) -> std::unique_ptr<VolumeFile> {
    if (is_scan_name(path)) return open_scan(path, {.canonical = is_canonical});
    if (lower_ending(path) != ".npy")
      return open_series(path, {.canonical = is_canonical}, *counts);
    if (is_canonical) {
      fail<DataError>(
          "{}: an array names no directions; expected, with orientation: canonical, masks as "
          "NIfTI, NRRD or MetaImage files or as series",
          printable(path));
    }
    return open_npy(path, "DHW");
  };
  const std::string known_as = fmt::format("dicom{}{}{}", is_canonical ? "-canonical" : "",
                                           config.series_uid.empty() ? "" : "-", config.series_uid);
  return build_volume_files_dataset(
      config, std::move(entries),
      {.open_image = open, .open_mask = open_mask, .known_as = known_as});
}

}  // namespace fovea::data
