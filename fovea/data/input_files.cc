#include "fovea/data/input_files.h"

#include <filesystem>

#include "fovea/core/error.h"
#include "fovea/data/datasets/image_files.h"
#include "fovea/data/datasets/volume_files.h"
#include "fovea/data/formats/dicom.h"
#include "fovea/data/formats/nifti.h"
#include "fovea/data/names.h"

namespace fovea::data {
namespace {

bool is_nifti(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  const std::string ending = lower_ending(name);
  return ending == ".nii" ||
         (ending == ".gz" && lower_ending(name.substr(0, name.size() - 3)) == ".nii");
}

bool is_volume(const std::string& path) {
  return is_nifti(path) || std::filesystem::is_directory(path);
}

template <class Config>
const Config* chosen_in(const std::optional<DataSectionConfig>& section) {
  return section ? section->get_if<Config>() : nullptr;
}

std::shared_ptr<const Dataset> open_volumes(const std::vector<std::string>& inputs,
                                            const std::optional<DataSectionConfig>& like) {
  const auto* nifti = chosen_in<NiftiConfig>(like);
  const auto* dicom = chosen_in<DicomConfig>(like);
  const bool is_canonical = nifti != nullptr && nifti->orientation == "canonical";
  const std::string series = dicom != nullptr ? dicom->series_uid : "";
  const auto open = [=](const std::string& path, std::optional<int64_t> frame) {
    if (!is_nifti(path)) return open_dicom_series(path, series);
    return open_nifti(path, {.canonical = is_canonical, .frame = frame});
  };
  std::vector<VolumeEntry> entries;
  for (const std::string& input : inputs) entries.push_back({.images = split_modalities(input)});
  const bool is_scaled = chosen_in<BasicCtConfig>(like) != nullptr;
  return build_volume_files_dataset({.path = inputs.front()}, std::move(entries),
                                    {open, open, is_scaled});
}

std::shared_ptr<const Dataset> open_images(const std::vector<std::string>& inputs) {
  ImageFiles files;
  for (const std::string& input : inputs) {
    files.images.add(std::filesystem::absolute(input).string());
    files.labels.push_back(-1);
  }
  return std::make_shared<ImageFilesDataset>(std::move(files));
}

}  // namespace

std::shared_ptr<const Dataset> open_input_files(const std::vector<std::string>& inputs,
                                                const std::optional<DataSectionConfig>& like) {
  FOVEA_CHECK(!inputs.empty(), "no input files");
  size_t num_volumes = 0;
  for (const std::string& input : inputs) num_volumes += is_volume(split_modalities(input).front());
  if (num_volumes != 0 && num_volumes != inputs.size()) {
    fail<ConfigError>(
        "{} of {} inputs are volumes (.nii, .nii.gz or a folder of DICOM slices), the others are "
        "not; give one kind at a time",
        num_volumes, inputs.size());
  }
  return num_volumes == 0 ? open_images(inputs) : open_volumes(inputs, like);
}

}  // namespace fovea::data
