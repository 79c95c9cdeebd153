// A step on tensors that come from elsewhere than a loader.
#pragma once

#include <cstdint>
#include <functional>

#include "fovea/train/step/step.h"

namespace fovea::train {

// One rank's part of a batch.
struct StepInput {
  int64_t size = 0;      // samples
  int64_t position = 0;  // of the batch's first sample in the run's order; for messages
  // Samples [begin, end) of the part; what they refer to outlives the step.
  std::function<TensorBatch(int64_t begin, int64_t end)> tensors;
  bool has_passes = false;  // `tensors` knows the passes of one size alone
};

// Of a loader's batch, which outlives it.
StepInput input_of(data::Batch& batch, const StepOptions& options);

// As the one of a data::Batch.
StepOutcome compute_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              const StepInput& batch, int64_t step, const StepOptions& options);

}  // namespace fovea::train
