// What of a recipe draws: what does not gives the same sample in every epoch.
#pragma once

#include <string>
#include <vector>

#include "fovea/data/config.h"
#include "fovea/data/transforms/any_transform.h"

namespace fovea::data {

// What of data.train differs from epoch to epoch: names of transforms, "adaptive_patching"; empty:
// every sample is the same in each. `mixup`, which mixes samples with each other, counts too.
std::vector<std::string> random_parts(const DataConfig& config);

}  // namespace fovea::data
