// NumPy's .npz files: arrays of images or volumes, with labels or masks.
#pragma once

#include <memory>
#include <string_view>

#include "fovea/data/dataset.h"
#include "fovea/data/datasets/array_file_config.h"

namespace fovea::data {

struct NpzFormat {
  static constexpr std::string_view kName = "npz";
  static constexpr std::string_view kPathHelp = "the .npz file";
};
using NpzConfig = ArrayFileConfig<NpzFormat>;

// Arrays are held in memory. Throws DataError: a damaged file, an array that is missing or of
// objects, counts that differ, labels that are no classes.
std::shared_ptr<const Dataset> build_npz_dataset(const NpzConfig& config);

}  // namespace fovea::data
