#include "fovea/train/step/step_parts.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/trace.h"
#include "fovea/kernels/out_of_memory.h"
#include "fovea/models/variables.h"
#include "fovea/nn/replay_scope.h"
#include "fovea/train/step/pass_size.h"

namespace fovea::train {
namespace {

// One collective for all numbers of a step.
void sum_outcome(StepOutcome& outcome, parallel::Communicator& ranks) {
  std::vector<double> numbers = {outcome.loss, outcome.weight,
                                 static_cast<double>(outcome.notes.stop_requests),
                                 static_cast<double>(outcome.notes.bad_samples)};
  for (const auto& [name, sum] : outcome.sums) numbers.push_back(sum);
  parallel::sum_over_ranks(ranks, numbers, "losses");
  outcome.loss = numbers[0];
  outcome.weight = numbers[1];
  outcome.notes = {.stop_requests = std::llround(numbers[2]),
                   .bad_samples = std::llround(numbers[3])};
  size_t next = 4;
  for (auto& [name, sum] : outcome.sums) sum = numbers[next++];
}

// Note [Losses of the whole batch]
// A loss that is no sum over samples is a function of sums that are (LossParts::statistics). Those
// of the whole batch come first, over all micro-batches and ranks; the loss's gradient in them is
// then what each part's own sums go backward with, and the parts' gradients add up to that of the
// whole batch. A part that is one pass needs no more for it; several are run once more before, for
// their sums alone.
class LossOfBatch {
 public:
  LossOfBatch(const Task& task, parallel::Communicator& ranks) : task_(task), ranks_(ranks) {}

  void add(const LossParts& parts) {
    const auto sums = parts.statistics.detach();
    sums_ = sums_.defined() ? sums_ + sums : sums;
    weight_ += parts.weight;
  }
  // Once all passes are added. Collective.
  void finish() {
    const auto all = at::cat({sums_, at::full({1}, weight_, sums_.options())});
    ranks_.all_reduce(all, "statistics of the loss");
    const int64_t size = sums_.size(0);
    const at::AutoGradMode with_graph(true);
    const auto statistics = all.narrow(0, 0, size).clone().requires_grad_();
    const auto loss = task_.loss_of_statistics(statistics);
    loss.backward();
    loss_ = loss.detach();
    gradient_ = statistics.grad() * all[size];
    is_whole_ = true;
  }
  bool is_whole() const { return is_whole_; }
  const at::Tensor& loss() const { return loss_; }  // mean of the batch
  // Of the batch's summed loss in the statistics.
  const at::Tensor& gradient() const { return gradient_; }

 private:
  const Task& task_;
  parallel::Communicator& ranks_;
  at::Tensor sums_, loss_, gradient_;
  double weight_ = 0;
  bool is_whole_ = false;
};

// The first batch of a run has none before it.
void expect_weight(optim::GradScaler& scaler, double of_first_pass, int64_t num_passes,
                   parallel::Communicator& ranks) {
  std::array weight = {of_first_pass * static_cast<double>(num_passes)};
  parallel::sum_over_ranks(ranks, weight, "weight of the first batch");
  scaler.expect_weight(weight[0]);
}

std::vector<std::pair<std::string, at::Tensor>> leaves_of(const optim::Optimizer& optimizer) {
  std::vector<std::pair<std::string, at::Tensor>> leaves;
  for (const auto& spec : optimizer.params()) leaves.emplace_back(spec.name, spec.param);
  return leaves;
}

LossParts forward_pass(models::Model& model, const Task& task, const TensorBatch& tensors) {
  const trace::Scope forward("forward");
  return task.loss(model, tensors);
}

// What backward starts from, with the gradient there; undefined: 1.
struct BackwardRoot {
  at::Tensor value, gradient;
};

// is_last: of the step; then gradients are exchanged while it runs.
void backward_pass(BackwardRoot root, bool is_last, const StepOptions& options) {
  if (options.reducer && is_last) options.reducer->overlap_next_backward();
  if (options.shards) options.shards->before_backward(is_last);
  {
    const trace::Scope backward("backward");
    if (options.scaler) {
      const double factor = factor_of_sums(options);
      root.gradient =
          root.gradient.defined() ? root.gradient * factor : at::full_like(root.value, factor);
    }
    root.value.backward(root.gradient);
  }
  if (options.shards) options.shards->after_backward();
}

void take_outcome(StepOutcome& outcome, optim::GradScaler& scaler) {
  outcome.is_skipped = !std::isfinite(outcome.loss) || !std::isfinite(outcome.grad_norm);
  scaler.update(!outcome.is_skipped);
  scaler.expect_weight(outcome.weight);
  outcome.loss_scale = scaler.scale();
}

void check_finite(const StepOutcome& outcome, int64_t step, int64_t position,
                  const optim::GradScaler* scaler) {
  if (std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm)) return;
  if (scaler && !scaler->is_below_limit()) return;
  fail<DivergedError>(
      "step {}: loss {} and gradient norm {} are not both finite; expected finite numbers. The "
      "samples of the batch start at position {}. {}",
      step, outcome.loss, outcome.grad_norm, position,
      scaler ? fmt::format("The loss scale has fallen to {}, below trainer.grad_scaler.min_scale, "
                           "so that no scale helps: set device.dtype=bfloat16, lower optim.lr, or "
                           "lengthen the warm-up",
                           scaler->scale())
             : "Lower optim.lr, lengthen the warm-up, or set trainer.max_grad_norm");
}

// Over the ranks that share the batch, and over those that share the model.
void sum_over_all(StepOutcome& outcome, optim::Optimizer& optimizer, parallel::Communicator& ranks,
                  const StepOptions& options) {
  const bool shares_model = options.model_parallel && options.model_parallel->is_on();
  if (shares_model) options.model_parallel->sum_gradients(leaves_of(optimizer));
  if (options.notes) outcome.notes = options.notes();
  sum_outcome(outcome, ranks);
  if (!shares_model) return;
  auto& requests = outcome.notes.stop_requests;
  requests = std::llround(options.model_parallel->max_over_ranks(static_cast<double>(requests)));
}

// sum becomes sum + value in float64; undefined ones are 0.
void add_to(at::Tensor& sum, const at::Tensor& value) {
  const auto wide = value.detach().to(at::kDouble);
  sum = sum.defined() ? sum + wide : wide;
}

// Whether ranks wait for each other within a pass, so that one of them cannot take a step anew.
bool meets_in_passes(const StepOptions& options) {
  return options.shards || (options.model_parallel && options.model_parallel->is_on());
}

// One try at a step's passes. trial: null, or where ranks agree before each exchange that all of
// them have come to it.
StepSums run_passes(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                    const StepInput& batch, int64_t step, const StepOptions& options,
                    PassTrial* trial) {
  const int64_t micro = size_of_pass(batch, options);
  const int64_t num_passes = (batch.size + micro - 1) / micro;
  auto& ranks = options.ranks ? *options.ranks : parallel::one_rank();
  optimizer.zero_grad();
  // Calls then(parts) with what drops are drawn by still in place.
  const auto in_pass = [&](int64_t pass, const auto& then) {
    auto tensors = batch.tensors(pass * micro, std::min(batch.size, (pass + 1) * micro));
    if (options.features) options.features->fill(tensors);
    if (options.compute.device.is_cuda() && !tensors.stamp.defined()) {  // once for all masks
      tensors.stamp =
          kernels::drop_stamp(static_cast<uint32_t>(step), tensors.rows, options.compute.device);
    }
    const nn::StepScope scope(nn::StepState{.seed = options.seed,
                                            .step = static_cast<uint32_t>(step),
                                            .rows = tensors.rows,
                                            .offsets = {},
                                            .stamp = tensors.stamp,
                                            .host_stamp = tensors.host_stamp});
    const models::ChannelScope channels(model, tensors.variables);
    then(forward_pass(model, task, tensors));
  };
  LossOfBatch of_batch(task, ranks);
  if (task.has_loss_of_batch() && num_passes > 1) {
    const at::NoGradGuard no_grad;
    for (int64_t pass = 0; pass < num_passes; ++pass) {
      in_pass(pass, [&](const LossParts& parts) { of_batch.add(parts); });
    }
    if (trial) trial->agree();
    of_batch.finish();
  }
  StepSums sums;
  for (int64_t pass = 0; pass < num_passes; ++pass) {
    in_pass(pass, [&](const LossParts& parts) {
      if (options.scaler && !options.scaler->knows_weight()) {
        if (trial) trial->agree();
        expect_weight(*options.scaler, parts.weight, num_passes, ranks);
      }
      BackwardRoot root{.value = parts.loss_sum, .gradient = {}};
      auto loss_sum = parts.loss_sum;
      if (task.has_loss_of_batch()) {
        if (!of_batch.is_whole()) {
          of_batch.add(parts);
          if (trial) trial->agree();
          of_batch.finish();
        }
        root = {.value = parts.statistics, .gradient = of_batch.gradient()};
        loss_sum = of_batch.loss() * parts.weight;
      }
      // Not while a rank may run out of memory in it.
      const bool is_last = pass + 1 == num_passes && trial == nullptr;
      backward_pass(root, is_last, options);
      add_to(sums.loss, loss_sum);
      sums.weight += parts.weight;
      for (const auto& [name, sum] : parts.sums) add_to(sums.sums[name], sum);
    });
  }
  if (trial) {
    trial->agree();
    trial->close();
  }
  if (options.reducer) options.reducer->finish();
  if (options.fp8) options.fp8->after_step();
  return sums;
}

// The same until memory is enough. Every rank takes the step anew where one has to.
StepSums run_smaller_passes(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                            const StepInput& batch, int64_t step, const StepOptions& options) {
  auto& passes = *options.passes;
  auto& ranks = options.ranks ? *options.ranks : parallel::one_rank();
  const bool must_agree = ranks.size() > 1 && !passes.is_settled() && !meets_in_passes(options);
  const bool can_retry = ranks.size() == 1 ? !meets_in_passes(options) : must_agree;
  for (;;) {
    const auto size = size_of_pass(batch, options);
    PassTrial trial(ranks, size);
    std::string fault;
    try {
      auto sums =
          run_passes(model, task, optimizer, batch, step, options, must_agree ? &trial : nullptr);
      passes.add_success();
      return sums;
    } catch (const PassTrial::TooLarge&) {
      fault = "another process ran out of memory";
    } catch (const std::exception& error) {
      const bool is_known = kernels::is_out_of_memory(error);
      if (!is_known || batch.has_passes || trial.is_closed()) throw;
      fault = error.what();
      fault = fault.substr(0, fault.find('\n'));
    }
    // Here nothing of the passes is alive any more.
    const auto most = must_agree ? trial.say_too_large() : size;
    passes.halve(most, fault, can_retry);
    release_kept_memory(options.compute.device);
  }
}

}  // namespace

int64_t size_of_pass(const StepInput& batch, const StepOptions& options) {
  const auto chosen = options.passes ? options.passes->size() : options.micro_batch_size;
  return chosen > 0 ? chosen : std::max<int64_t>(1, batch.size);
}

StepSums accumulate_gradients(models::Model& model, const Task& task, optim::Optimizer& optimizer,
                              const StepInput& batch, int64_t step, const StepOptions& options) {
  return options.passes
             ? run_smaller_passes(model, task, optimizer, batch, step, options)
             : run_passes(model, task, optimizer, batch, step, options, /*trial=*/nullptr);
}

// What sums of losses are multiplied by before the backward pass.
double factor_of_sums(const StepOptions& options) {
  return options.scaler ? options.scaler->factor_of_sums() : 1.0;
}

StepOutcome outcome_of(const StepSums& sums) {
  StepOutcome outcome;
  outcome.weight = sums.weight;
  if (sums.loss.defined()) outcome.loss = sums.loss.item<double>();
  for (const auto& [name, sum] : sums.sums) outcome.sums[name] = sum.item<double>();
  return outcome;
}

void check_weight(double weight, int64_t step) {
  FOVEA_CHECK(weight > 0,
              "step {}: the weights of the batch's losses sum to {}; expected more than 0", step,
              weight);
}

StepOutcome outcome_over_ranks(const StepSums& sums, optim::Optimizer& optimizer, int64_t step,
                               const StepOptions& options) {
  auto outcome = outcome_of(sums);
  sum_over_all(outcome, optimizer, options.ranks ? *options.ranks : parallel::one_rank(), options);
  check_weight(outcome.weight, step);
  outcome.loss /= outcome.weight;
  return outcome;
}

void finish_outcome(StepOutcome& outcome, int64_t step, int64_t position,
                    optim::GradScaler* scaler) {
  if (scaler) take_outcome(outcome, *scaler);
  check_finite(outcome, step, position, scaler);
}

}  // namespace fovea::train
