// A run that goes on with another length than it had.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/train/recipe/config.h"

namespace fovea::train {

// What is said where a run that has done `step` steps goes on with a config that gives it another
// number of them: both numbers, and whether the schedule is still the one that those steps saw.
// Empty where it is as long as before. steps_per_epoch: of the data, as it is now.
std::string length_notice(const TrainConfig& before, const TrainConfig& now,
                          int64_t steps_per_epoch, int64_t step);

// Throws ConfigError where a run of `num_steps` has done more than that.
void check_not_beyond(int64_t step, int64_t num_steps);

}  // namespace fovea::train
