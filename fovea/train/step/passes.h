// The micro-batches of a step, forward and backward, on this rank.
#pragma once

#include <cstdint>

#include "fovea/train/step/step.h"

namespace fovea::train {

// Gradients are sums over the micro-batches, and over the ranks of options.sync, times
// factor_of_sums; the numbers are this rank's. Where memory runs out see Note [Passes that are too
// large].
StepSums run_passes(const StepParts& parts, const StepInput& batch, int64_t step);

// What sums of losses are multiplied by before the backward pass.
double factor_of_sums(const StepOptions& options);

// Whether ranks wait for each other within a pass, so that one of them cannot take a step anew.
bool meets_in_passes(const StepOptions& options);

}  // namespace fovea::train
