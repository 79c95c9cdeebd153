#include "fovea/train/step/stepper.h"

#include "fovea/core/trace.h"
#include "fovea/kernels/elementwise/adamw.h"
#include "fovea/kernels/out_of_memory.h"

namespace fovea::train {
namespace {

// Whether one norm of the gradients as they stand is all that clipping needs. Of parameters that
// are shared out it takes a collective, and then the host has it.
bool clips_in_one_pass(optim::Optimizer& optimizer, const StepOptions& options) {
  const auto grad = optimizer.flat_grad();
  return options.max_grad_ratio == 0 && options.max_grad_value == 0 &&
         !optimizer.sum_over_parts() && grad.scalar_type() == at::kFloat &&
         kernels::has_adamw_step(grad.device());
}

}  // namespace

Stepper::Stepper(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                 optim::Ema* ema, const StepOptions& options, Numbers numbers)
    : model_(model),
      task_(task),
      optimizer_(optimizer),
      ema_(ema),
      options_(options),
      is_one_pass_(clips_in_one_pass(optimizer, options)),
      numbers_(numbers) {
  const bool is_alone = !options.ranks || options.ranks->size() == 1;
  if (!is_one_pass_ || !is_alone || options.scaler) numbers_ = Numbers::kAtOnce;
}

StepNotes Stepper::take(data::Batch& batch, int64_t step, double lr) {
  return take(input_of(batch, options_), step, lr);
}

StepNotes Stepper::take(const StepInput& batch, int64_t step, double lr) {
  Step taken{.step = step, .position = batch.position, .outcome = {}, .sums = {}, .clip = {}};
  is_late() ? take_late(batch, taken, lr) : take_at_once(batch, taken, lr);
  steps_.push_back(std::move(taken));
  return steps_.back().outcome.notes;
}

void Stepper::take_at_once(const StepInput& batch, Step& taken, double lr) {
  auto& outcome = taken.outcome;
  if (!is_one_pass_) {
    outcome = compute_gradients(model_, task_, optimizer_, batch, taken.step, options_);
    if (!outcome.is_skipped) update(taken.step, lr, {});
    return;
  }
  const auto sums = accumulate_gradients(model_, task_, optimizer_, batch, taken.step, options_);
  outcome = outcome_over_ranks(sums, optimizer_, taken.step, options_);
  const auto clip = kernels::clip_state(
      optimizer_.flat_grad(), {.max_norm = options_.max_grad_norm,
                               .grad_scale = 1.0 / factor_of_sums(options_) / outcome.weight,
                               .loss = {},
                               .before = {}});
  outcome.grad_norm = clip[kernels::kClipNorm].item<double>();
  finish_outcome(outcome, taken.step, taken.position, options_.scaler);
  if (!outcome.is_skipped) update(taken.step, lr, clip);
}

void Stepper::take_late(const StepInput& batch, Step& taken, double lr) {
  const LateStepOptions how{.step = taken.step, .lr = lr, .clip_before = last_clip_};
  auto late = graph_ ? take_by_graph(batch, how) : take_eagerly(batch, how);
  taken.sums = std::move(late.sums);
  taken.clip = last_clip_ = late.clip;
  if (options_.notes) taken.outcome.notes = options_.notes();
}

// What a graph holds has the size of its passes: where memory runs out it makes room.
LateStep Stepper::take_by_graph(const StepInput& batch, const LateStepOptions& how) {
  try {
    return graph_->take(batch, how);
  } catch (const std::exception& error) {
    if (options_.passes == nullptr || !kernels::is_out_of_memory(error)) throw;
  }
  graph_->give_up("memory ran out");
  return take_eagerly(batch, how);
}

LateStep Stepper::take_eagerly(const StepInput& batch, const LateStepOptions& how) {
  LateStep late{.sums = accumulate_gradients(model_, task_, optimizer_, batch, how.step, options_),
                .clip = {}};
  check_weight(late.sums.weight, how.step);
  late.clip = kernels::clip_state(optimizer_.flat_grad(), {.max_norm = options_.max_grad_norm,
                                                           .grad_scale = 1.0 / late.sums.weight,
                                                           .loss = late.sums.loss,
                                                           .before = how.clip_before});
  update(how.step, how.lr, late.clip);
  return late;
}

void Stepper::use_graphs(kernels::MakeDeviceGraph make, bool is_asked_for) {
  const auto reason = is_late() ? why_not_recorded(model_, task_, optimizer_, options_)
                                : "the host has each step's numbers at once";
  if (!reason.empty()) return say_not_recorded(reason, is_asked_for);
  graph_.emplace(StepGraphParts{.task = task_,
                                .optimizer = optimizer_,
                                .ema = ema_,
                                .options = options_,
                                .take =
                                    [this](const StepInput& batch, const LateStepOptions& how) {
                                      return take_eagerly(batch, how);
                                    },
                                .is_asked_for = is_asked_for},
                 std::move(make));
}

// clip: undefined: gradients are clipped.
void Stepper::update(int64_t step, double lr, const at::Tensor& clip) {
  const trace::Scope update("optimizer");
  optim::StepExtras extras{.clip = clip};
  if (ema_) ema_->join(step, extras);
  optimizer_.step(lr, extras);
}

std::vector<StepOutcome> Stepper::outcomes() {
  std::vector<StepOutcome> result;
  for (auto& taken : steps_) {
    if (taken.clip.defined()) {
      const auto notes = taken.outcome.notes;
      taken.outcome = outcome_of(taken.sums);
      taken.outcome.notes = notes;
      taken.outcome.loss /= taken.outcome.weight;
      taken.outcome.grad_norm = taken.clip[kernels::kClipNorm].item<double>();
      finish_outcome(taken.outcome, taken.step, taken.position, options_.scaler);
    }
    result.push_back(std::move(taken.outcome));
  }
  steps_.clear();
  return result;
}

}  // namespace fovea::train
