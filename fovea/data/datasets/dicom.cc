#include "fovea/data/datasets/dicom.h"

#include "fovea/data/formats/dicom.h"
#include "fovea/data/formats/npy_volume.h"
#include "fovea/data/names.h"

namespace fovea::data {

std::shared_ptr<const Dataset> build_dicom_dataset(const DicomConfig& config) {
  const auto open = [uid = config.series_uid](const std::string& path, std::optional<int64_t>) {
    return open_dicom_series(path, uid);
  };
  const auto open_mask = [](const std::string& path, std::optional<int64_t>) {
    return lower_ending(path) == ".npy" ? open_npy(path, "DHW") : open_dicom_series(path);
  };
  return build_volume_files_dataset(config, find_volume_entries(config, "*"),
                                    {open, open_mask, false});
}

}  // namespace fovea::data
