#include "fovea/train/step.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/models/variables.h"
#include "fovea/optim/clip.h"

namespace fovea::train {
namespace {

// On the gradients of the whole batch, however many passes it took. -> their norm before.
double clip(optim::Optimizer& optimizer, const StepOptions& options) {
  const auto& grad = optimizer.flat_grad();
  if (options.max_grad_ratio == 0)
    return optim::clip_gradients(grad, options.max_grad_norm, options.max_grad_value);
  const double norm = optim::global_norm(grad);
  if (!std::isfinite(norm)) return norm;
  auto params = optimizer.params();
  std::erase_if(params,
                [](const optim::ParamSpec& spec) { return spec.name.starts_with("head."); });
  optim::clip_gradients_adaptively(params, options.max_grad_ratio);
  optim::clip_gradients(grad, options.max_grad_norm, options.max_grad_value);
  return norm;
}

}  // namespace

StepOutcome compute_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              data::Batch& batch, int64_t step, const StepOptions& options) {
  const int64_t micro = options.micro_batch_size > 0 ? options.micro_batch_size : batch.size();
  if (micro < batch.size() && !task.losses_add_up()) {
    fail<ConfigError>(
        "trainer.micro_batch_size: found {}, but the task's loss is one of the whole batch of {} "
        "and does not add up over parts; set it to auto, or choose a loss of single samples",
        micro, batch.size());
  }
  optimizer.zero_grad();
  StepOutcome outcome;
  for (int64_t begin = 0; begin < batch.size(); begin += micro) {
    const int64_t end = std::min(batch.size(), begin + micro);
    auto tensors = to_tensors(batch, begin, end, options.compute);
    if (options.features) options.features->fill(tensors);
    const nn::StepScope scope(options.seed, step, tensors.rows);
    const models::ChannelScope channels(model, tensors.variables);
    const auto parts = task.loss(model, tensors);
    parts.loss_sum.backward();
    outcome.loss += parts.loss_sum.item<double>();
    outcome.weight += parts.weight;
    for (const auto& [name, sum] : parts.sums) outcome.sums[name] += sum;
  }
  FOVEA_CHECK(outcome.weight > 0,
              "step {}: the weights of the batch's losses sum to {}; expected more than 0", step,
              outcome.weight);
  outcome.loss /= outcome.weight;
  optimizer.flat_grad().mul_(1.0 / outcome.weight);
  outcome.grad_norm = clip(optimizer, options);
  if (!std::isfinite(outcome.loss) || !std::isfinite(outcome.grad_norm)) {
    fail<DivergedError>(
        "step {}: loss {} and gradient norm {} are not both finite; expected finite numbers. The "
        "samples of the "
        "batch start at position {}. Lower optim.lr, lengthen the warm-up, or set "
        "trainer.max_grad_norm",
        step, outcome.loss, outcome.grad_norm, batch.position);
  }
  return outcome;
}

}  // namespace fovea::train
