#include "fovea/data/datasets/registry.h"

#include <utility>

#include "fovea/data/subset.h"

namespace fovea::data {
namespace {

std::shared_ptr<const Dataset> build(const IdxConfig& config) { return build_idx_dataset(config); }

std::shared_ptr<const Dataset> build(const CifarConfig& config) {
  return build_cifar_dataset(config);
}

std::shared_ptr<const Dataset> build(const FolderConfig& config) {
  return build_folder_dataset(config);
}

std::shared_ptr<const Dataset> build(const FileListConfig& config) {
  return build_file_list_dataset(config);
}

std::shared_ptr<const Dataset> build(const CatsdogsConfig& config) {
  return build_catsdogs_dataset(config);
}

std::shared_ptr<const Dataset> build(const TinyImagenetConfig& config) {
  return build_tiny_imagenet_dataset(config);
}

std::shared_ptr<const Dataset> build(const WdsConfig& config) { return build_wds_dataset(config); }

std::shared_ptr<const Dataset> build(const PackedConfig& config) {
  return build_packed_dataset(config);
}

std::shared_ptr<const Dataset> build(const CifarPythonConfig& config) {
  return build_cifar_python_dataset(config);
}

std::shared_ptr<const Dataset> build(const NpzConfig& config) { return build_npz_dataset(config); }

std::shared_ptr<const Dataset> build(const MedMnistConfig& config) {
  return build_medmnist_dataset(config);
}

std::shared_ptr<const Dataset> build(const NpyConfig& config) { return build_npy_dataset(config); }

std::shared_ptr<const Dataset> build(const RawConfig& config) { return build_raw_dataset(config); }

std::shared_ptr<const Dataset> build(const NiftiConfig& config) {
  return build_nifti_dataset(config);
}

std::shared_ptr<const Dataset> build(const BasicCtConfig& config) {
  return build_basic_ct_dataset(config);
}

std::shared_ptr<const Dataset> build(const DicomConfig& config) {
  return build_dicom_dataset(config);
}

std::shared_ptr<const Dataset> build(const Hdf5Config& config) {
  return build_hdf5_dataset(config);
}

}  // namespace

std::shared_ptr<const Dataset> build_dataset(const DatasetConfig& config) {
  return config.visit_value([](const auto& chosen) -> std::shared_ptr<const Dataset> {
    auto dataset = build(chosen);
    if (chosen.channels.empty()) return dataset;
    return std::make_shared<ChannelsDataset>(std::move(dataset), chosen.channels);
  });
}

const std::vector<AnyTransformConfig>& transforms_of(const DatasetConfig& config) {
  return config.visit_value([](const auto& chosen) -> const std::vector<AnyTransformConfig>& {
    return chosen.transforms;
  });
}

}  // namespace fovea::data

namespace fovea {

template struct detail::OneOfValue<decltype(data::DatasetConfig::value)>;
template struct detail::BoundOneOf<data::DatasetConfig>;

}  // namespace fovea
