#include "fovea/data/datasets/registry.h"

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

}  // namespace

std::shared_ptr<const Dataset> build_dataset(const DatasetConfig& config) {
  return config.visit_value([](const auto& chosen) { return build(chosen); });
}

const std::vector<TransformConfig>& transforms_of(const DatasetConfig& config) {
  return config.visit_value(
      [](const auto& chosen) -> const std::vector<TransformConfig>& { return chosen.transforms; });
}

}  // namespace fovea::data
