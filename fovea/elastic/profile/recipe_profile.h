// What of a recipe a profile is of: its model, its kind of device, its buckets.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/elastic/solve/profile.h"
#include "fovea/train/recipe/config.h"

namespace fovea::elastic {

// The recipe in one process, a step of it one pass of `batch` samples.
train::TrainConfig one_pass_config(const train::TrainConfig& recipe, int64_t batch);

// All of a device's memory; of the CPU what this process may use.
int64_t device_memory_bytes(c10::Device device);

// What data parallel sums at once, in the order of backward: the reducer's own buckets, as two
// ranks of the recipe start them.
std::vector<double> bucket_megabytes(const train::TrainConfig& config);

// Throws DataError where profiles are of another model or dtype than the recipe at `path`, with
// the recipe's line. A file without a model, such as JABAS's, says nothing of it.
void check_profiles_of_recipe(const std::string& path, const ProfileSet& profiles);

}  // namespace fovea::elastic
