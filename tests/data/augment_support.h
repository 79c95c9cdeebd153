// Goldens of the 2-D augmentations.
#pragma once

#include <string>
#include <vector>

#include "tests/data/support.h"

namespace fovea::data::testing {

inline const GoldenArray& augment_golden(const std::string& name) {
  return golden(name, "data_augment");
}

inline std::vector<std::vector<std::string>> augment_golden_names(const std::string& prefix) {
  return golden_names(prefix, "data_augment");
}

}  // namespace fovea::data::testing
