#include "fovea/data/datasets/medmnist.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "fovea/data/datasets/arrays.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {

std::shared_ptr<const Dataset> build_medmnist_dataset(const MedMnistConfig& config) {
  const ZipFile file(config.path);
  const auto read = [&](const std::string& name) {
    return read_npz_array(file, name, config.max_unpacked_bytes);
  };
  ArraySet set;
  set.images = read(config.split + "_images");
  set.axes = guess_axes(set.images.shape);
  set.labels = labels_of(read(config.split + "_labels"));
  set.class_names = config.class_names;
  if (config.num_classes) {
    set.rule.num_classes = *config.num_classes;
  } else if (config.class_names.empty()) {
    // All splits count, so that train and val agree where a rare class is missing in one.
    for (const char* split : {"train", "val", "test"}) {
      if (file.find(fmt::format("{}_labels.npy", split)) == nullptr) continue;
      const auto labels = labels_of(read(fmt::format("{}_labels", split)));
      const int64_t largest = *std::max_element(labels.begin(), labels.end());
      set.rule.num_classes = std::max(set.rule.num_classes, largest + 1);
    }
  }
  const std::string name = std::filesystem::path(config.path).filename().string();
  set.name = fmt::format("{}:{}_images", printable(name), config.split);
  return build_array_dataset(std::move(set));
}

}  // namespace fovea::data
