// What compute_gradients and Stepper have in common.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "fovea/train/step/step_input.h"

namespace fovea::train {

// What the micro-batches of a step add up to on this rank: scalars in float64 on the model's
// device, where they may not be computed yet.
struct StepSums {
  at::Tensor loss;
  double weight = 0;
  std::map<std::string, at::Tensor> sums;  // further ones, by the metric's name
};

// Samples of a micro-batch; the last one of a batch may have fewer.
int64_t size_of_pass(const StepInput& batch, const StepOptions& options);

// Forward and backward over the micro-batches. Gradients are sums over them, and over ranks with a
// reducer or shards, times factor_of_sums.
StepSums accumulate_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              const StepInput& batch, int64_t step, const StepOptions& options);

// What sums of losses were multiplied by before the backward pass.
double factor_of_sums(const StepOptions& options);

// Waits for the device. The loss is the sum.
StepOutcome outcome_of(const StepSums& sums);

// The same of the whole batch, with notes, and the loss as the mean. Sums the gradients over the
// ranks that share the model. Collective.
StepOutcome outcome_over_ranks(const StepSums& sums, optim::Optimizer& optimizer, int64_t step,
                               const StepOptions& options);

// Throws Error unless there is something to divide by.
void check_weight(double weight, int64_t step);

// Tells the scaler, null without one. Throws DivergedError where the outcome is not finite, unless
// another scale may help.
void finish_outcome(StepOutcome& outcome, int64_t step, int64_t position,
                    optim::GradScaler* scaler);

}  // namespace fovea::train
