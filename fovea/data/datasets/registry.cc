#include "fovea/data/datasets/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/data/dataset_views.h"
#include "fovea/data/datasets/basic_ct.h"
#include "fovea/data/datasets/catsdogs.h"
#include "fovea/data/datasets/cifar.h"
#include "fovea/data/datasets/cifar_python.h"
#include "fovea/data/datasets/dicom.h"
#include "fovea/data/datasets/file_list.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/datasets/format_entry.h"
#include "fovea/data/datasets/hdf5.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/medmnist.h"
#include "fovea/data/datasets/npy.h"
#include "fovea/data/datasets/npz.h"
#include "fovea/data/datasets/own.h"
#include "fovea/data/datasets/packed.h"
#include "fovea/data/datasets/raw.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/datasets/slides.h"
#include "fovea/data/datasets/tiny_imagenet.h"
#include "fovea/data/datasets/wds.h"

namespace fovea::data {
namespace {

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

// A new format: a line here, and the header of its config above.
const ConfigAlternatives& DatasetFormat::alternatives() {
  static const ConfigAlternatives all = {
      dataset_format<IdxConfig, build_idx_dataset>(),
      dataset_format<CifarConfig, build_cifar_dataset>(),
      dataset_format<CifarPythonConfig, build_cifar_python_dataset>(),
      dataset_format<FolderConfig, build_folder_dataset>(),
      dataset_format<FileListConfig, build_file_list_dataset>(),
      dataset_format<CatsdogsConfig, build_catsdogs_dataset>(),
      dataset_format<TinyImagenetConfig, build_tiny_imagenet_dataset>(),
      dataset_format<WdsConfig, build_wds_dataset>(),
      dataset_format<PackedConfig, build_packed_dataset>(),
      dataset_format<NpyConfig, build_npy_dataset>(),
      dataset_format<NpzConfig, build_npz_dataset>(),
      dataset_format<MedMnistConfig, build_medmnist_dataset>(),
      dataset_format<RawConfig, build_raw_dataset>(),
      dataset_format<NiftiConfig, build_scan_files<NiftiConfig>>(),
      dataset_format<NrrdConfig, build_scan_files<NrrdConfig>>(),
      dataset_format<MetaImageConfig, build_scan_files<MetaImageConfig>>(),
      dataset_format<BasicCtConfig, build_basic_ct_dataset>(),
      dataset_format<DicomConfig, build_dicom_dataset>(),
      dataset_format<Hdf5Config, build_hdf5_dataset>(),
      dataset_format<SlidesConfig, build_slides_dataset>(),
      dataset_format<OwnDatasetConfig, build_own_dataset>(),
  };
  return all;
}

std::shared_ptr<const Dataset> build_dataset(const DatasetConfig& config,
                                             EmptyClasses empty_classes) {
  return config->open(empty_classes);
}

std::shared_ptr<const Dataset> build_validation_set(const DatasetConfig& config,
                                                    const std::vector<std::string>& class_names) {
  return with_classes(build_dataset(config, EmptyClasses::kAllowed), class_names);
}

}  // namespace fovea::data
