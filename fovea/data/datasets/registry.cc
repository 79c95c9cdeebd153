#include "fovea/data/datasets/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/data/order/subset.h"

namespace fovea::data {
namespace {

std::shared_ptr<const Dataset> build(const IdxConfig& config) { return build_idx_dataset(config); }

std::shared_ptr<const Dataset> build(const CifarConfig& config) {
  return build_cifar_dataset(config);
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
  return build_scans_dataset(config, NiftiConfig::kImages);
}

std::shared_ptr<const Dataset> build(const NrrdConfig& config) {
  return build_scans_dataset(config, NrrdConfig::kImages);
}

std::shared_ptr<const Dataset> build(const MetaImageConfig& config) {
  return build_scans_dataset(config, MetaImageConfig::kImages);
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

constexpr size_t kMostNamed = 8;  // classes in a message

// The dataset with the labels that the model has learned. A label is a position in the list of
// classes, so that another list would count right answers as wrong ones.
std::shared_ptr<const Dataset> with_classes(std::shared_ptr<const Dataset> dataset,
                                            const std::vector<std::string>& expected) {
  const auto& found = dataset->class_names();
  const bool is_named = static_cast<int64_t>(found.size()) == dataset->num_classes();
  if (expected.empty() || expected == found || !is_named || dataset->has_masks()) return dataset;
  std::vector<int64_t> labels;
  for (const std::string& name : found) {
    const auto place = std::find(expected.begin(), expected.end(), name);
    if (place == expected.end()) {
      fail<ConfigError>(
          "data.val: the class '{}' is none of the {} that the model has learned ({}{}); rename or "
          "remove it, or give both data sets the same class_names",
          name, expected.size(),
          fmt::join(std::span(expected).first(std::min(expected.size(), kMostNamed)), ", "),
          expected.size() > kMostNamed ? ", ..." : "");
    }
    labels.push_back(place - expected.begin());
  }
  return std::make_shared<RelabelledDataset>(std::move(dataset), std::move(labels), expected);
}

}  // namespace

std::shared_ptr<const Dataset> build_dataset(const DatasetConfig& config,
                                             EmptyClasses empty_classes) {
  return config.visit_value([&](const auto& chosen) -> std::shared_ptr<const Dataset> {
    std::shared_ptr<const Dataset> dataset;
    if constexpr (std::is_same_v<std::decay_t<decltype(chosen)>, FolderConfig>) {
      dataset = build_folder_dataset(chosen, empty_classes);
    } else {
      dataset = build(chosen);
    }
    if (chosen.channels.empty()) return dataset;
    return std::make_shared<ChannelsDataset>(std::move(dataset), chosen.channels);
  });
}

std::shared_ptr<const Dataset> build_validation_set(const DatasetConfig& config,
                                                    const std::vector<std::string>& class_names) {
  return with_classes(build_dataset(config, EmptyClasses::kAllowed), class_names);
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
