// The gradients of a step as such: prepared, and multiplied by what the update would.
#pragma once

#include "fovea/optim/clip.h"
#include "fovea/train/step/step.h"

namespace fovea::train::testing {

template <class Batch>
StepOutcome gradients_of_step(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              Batch&& batch, int64_t step, const StepOptions& options) {
  const StepParts parts{.model = model, .task = task, .optimizer = optimizer, .options = options};
  const auto prepared = prepare_step(parts, batch, step);
  auto outcome = outcome_of(prepared, options);
  optim::scale_gradients(optimizer.flat_grad(), prepared.clip);
  return outcome;
}

}  // namespace fovea::train::testing
