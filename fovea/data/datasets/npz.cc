#include "fovea/data/datasets/npz.h"

#include <fmt/format.h>

#include <filesystem>

#include "fovea/data/datasets/arrays.h"
#include "fovea/files/file_endings.h"

namespace fovea::data {

std::shared_ptr<const Dataset> build_npz_dataset(const NpzConfig& config) {
  const ZipFile file(config.path);
  const auto read = [&](const std::string& name) {
    return read_npz_array(file, name, config.max_unpacked_bytes);
  };
  ArraySet set;
  set.images = read(config.images);
  set.axes = config.axes.empty() ? guess_axes(set.images.shape) : config.axes;
  if (!config.labels.empty()) set.labels = labels_of(read(config.labels));
  if (!config.masks.empty()) set.masks = read(config.masks);
  set.rule = {config.label_offset, config.num_classes.value_or(0), config.ignore_values};
  set.class_names = config.class_names;
  const std::string name = std::filesystem::path(config.path).filename().string();
  set.name = fmt::format("{}:{}", printable(name), config.images);
  return build_array_dataset(std::move(set));
}

}  // namespace fovea::data
