#include "fovea/train/step/step.h"

#include <cmath>
#include <vector>

#include "fovea/optim/clip.h"
#include "fovea/train/step/step_parts.h"

namespace fovea::train {
namespace {

// On the gradients of the whole batch, however many passes it took. -> their norm before.
double clip(optim::Optimizer& optimizer, const StepOptions& options) {
  if (options.max_grad_ratio == 0) {
    return optim::clip_gradients(optimizer, options.max_grad_norm, options.max_grad_value);
  }
  const double norm = optim::gradient_norm(optimizer);
  if (!std::isfinite(norm)) return norm;
  auto params = optimizer.params();
  std::erase_if(params,
                [](const optim::ParamSpec& spec) { return spec.name.starts_with("head."); });
  optim::clip_gradients_adaptively(params, options.max_grad_ratio, optimizer.sum_over_parts());
  optim::clip_gradients(optimizer, options.max_grad_norm, options.max_grad_value);
  return norm;
}

}  // namespace

StepInput input_of(data::Batch& batch, const StepOptions& options) {
  return {.size = batch.size(),
          .position = batch.position,
          .tensors = [&batch, compute = options.compute](int64_t begin, int64_t end) {
            return to_tensors(batch, begin, end, compute);
          }};
}

StepOutcome compute_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              data::Batch& batch, int64_t step, const StepOptions& options) {
  return compute_gradients(model, task, optimizer, input_of(batch, options), step, options);
}

StepOutcome compute_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              const StepInput& batch, int64_t step, const StepOptions& options) {
  const auto sums = accumulate_gradients(model, task, optimizer, batch, step, options);
  auto outcome = outcome_over_ranks(sums, optimizer, step, options);
  // With the scale of this step: finish_outcome chooses the next one.
  optimizer.flat_grad().mul_(1.0 / factor_of_sums(options) / outcome.weight);
  outcome.grad_norm = clip(optimizer, options);
  finish_outcome(outcome, step, batch.position, options.scaler);
  return outcome;
}

}  // namespace fovea::train
