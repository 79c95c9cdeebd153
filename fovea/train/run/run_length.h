// How long a run is, and one that goes on with another length than it had.
#pragma once

#include <cstdint>
#include <string>

#include "fovea/data/order/sample_order.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// Where batches change their size, max_epochs and what is counted in steps but for max_steps go by
// the samples: Note [Batches that change their size] in sample_order.h.
struct RunLength {
  int64_t steps = 0;             // optimizer steps
  int64_t first_size_steps = 0;  // the same in batches of the first size, what a schedule counts
};

RunLength run_length(const TrainerConfig& config, const data::SampleOrder& order);

// The length of a run that is under way when it is told of `change`. Throws ConfigError where the
// schedule hangs on it, so that the learning rate of steps that are done would have been another:
// one without a length of its own in a run that max_steps ends.
//
// Who changes the batch of a run calls this and then, on every rank before the batch at
// change.position is taken, Loader::append. The owner of the run folder writes
// order().batch_schedule() to kBatchScheduleFile in it (write_batch_schedule) before a checkpoint
// behind that position, so that the next start takes the same batches.
RunLength changed_length(const TrainConfig& config, const data::SampleOrder& order,
                         const data::BatchSizeChange& change);

// What is said where a run that has done `step` steps goes on with a config that gives it another
// number of them: both numbers, and whether the schedule is still the one that those steps saw.
// Empty where it is as long as before. order: of the data, as it is now.
std::string length_notice(const TrainConfig& before, const TrainConfig& now,
                          const data::SampleOrder& order, int64_t step);

// Throws ConfigError where a run of `num_steps` has done more than that.
void check_not_beyond(int64_t step, int64_t num_steps);

}  // namespace fovea::train
