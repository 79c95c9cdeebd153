// The time of passes that are computed at the same time.
#pragma once

#include <cstdint>

#include "fovea/data/batch.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

// Seconds of a pass, of the slowest of the workers that have one each at the same time.
struct PassGroupTime {
  double data = 0;      // from the loader's buffers to tensors
  double forward = 0;   // with the loss
  double backward = 0;  // with what it adds to the gradients
};

// Medians over `rounds`, after one that does not count: `workers` passes of all samples of `batch`
// at once, as a step computes them (step/pass_workers.h). One worker has all threads of the CPU
// kernels. Weights stay. Not of a model that is shared out, nor with FP8 or a frozen backbone.
PassGroupTime time_pass_group(const StepParts& parts, data::Batch& batch, int64_t workers,
                              int64_t rounds);

}  // namespace fovea::train
