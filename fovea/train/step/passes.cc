#include "fovea/train/step/passes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/trace.h"
#include "fovea/kernels/out_of_memory.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/step/loss_of_batch.h"
#include "fovea/train/step/pass_plan.h"
#include "fovea/train/step/pass_size.h"

namespace fovea::train {
namespace {

parallel::Communicator& ranks_of(const StepOptions& options) {
  return options.ranks ? *options.ranks : parallel::one_rank();
}

// What backward starts from, with the gradient there; undefined: 1.
struct BackwardRoot {
  at::Tensor value, gradient;
};

// is_last: of the step; then gradients are exchanged while it runs.
void backward_pass(BackwardRoot root, bool is_last, const StepOptions& options) {
  if (options.sync) options.sync->before_backward(is_last);
  {
    const trace::Scope backward("backward");
    if (options.scaler) {
      const double factor = factor_of_sums(options);
      root.gradient =
          root.gradient.defined() ? root.gradient * factor : at::full_like(root.value, factor);
    }
    root.value.backward(root.gradient);
  }
  if (options.sync) options.sync->after_backward();
}

// sum becomes sum + value in float64; undefined ones are 0.
void add_to(at::Tensor& sum, const at::Tensor& value) {
  const auto wide = value.detach().to(at::kDouble);
  sum = sum.defined() ? sum + wide : wide;
}

// One try at the passes of a step.
class Passes {
 public:
  // trial: null, or where ranks agree before each exchange that all of them have come to it.
  Passes(const StepParts& parts, const StepInput& batch, int64_t step, PassTrial* trial)
      : parts_(parts),
        options_(parts.options),
        batch_(batch),
        step_(static_cast<uint32_t>(step)),
        trial_(trial),
        plan_(plan_passes(batch, parts.options)),
        of_batch_(parts.task, ranks_of(parts.options)),
        slots_(static_cast<size_t>(std::max<int64_t>(1, plan_.of_slots.slots()))) {
    if (meets_in_passes(options_)) num_idle_ = plan_.most - count();
  }

  StepSums run() {
    parts_.optimizer.zero_grad();
    expect_global_weight();
    if (parts_.task.has_loss_of_batch() && must_find_loss_of_batch()) find_loss_of_batch();
    if (options_.sync && plan_.has_slots()) options_.sync->begin_slots(plan_.of_slots);
    for (int64_t i = 0; i < num_idle_; ++i) {
      const bool is_last = count() == 0 && i + 1 == num_idle_;
      options_.sync->idle_pass(is_last ? parallel::IdlePass::kLastBackward
                                       : parallel::IdlePass::kBackward);
    }
    int64_t slot = plan_.slots.first;
    for (int64_t i = 0; i < count(); ++i) {
      end_slots(slot, own(i).slot);
      in_pass(i, [&](const LossParts& loss) {
        go_backward(loss, slots_[static_cast<size_t>(own(i).slot)], i + 1 == count());
      });
    }
    end_slots(slot, plan_.slots.last);
    agree();
    if (trial_) trial_->close();
    if (options_.sync) options_.sync->finish();
    if (options_.fp8) options_.fp8->after_step();
    return take_sums();
  }

 private:
  // Sums over the passes of a slot, or over all.
  struct Sums {
    at::Tensor loss;
    double weight = 0;
    std::map<std::string, at::Tensor> further;
  };

  int64_t count() const { return std::ssize(plan_.own); }
  const Pass& own(int64_t i) const { return plan_.own[static_cast<size_t>(i)]; }

  void agree() {
    if (trial_) trial_->agree();
  }

  // Those before slot `next`, of which `slot` is the first one.
  void end_slots(int64_t& slot, int64_t next) {
    for (; plan_.has_slots() && slot < next; ++slot) {
      if (options_.sync) options_.sync->end_slot(slot);
    }
  }

  // Calls then(loss) with what drops are drawn by still in place.
  template <class Then>
  void in_pass(int64_t i, const Then& then) {
    const bool is_accompanied = plan_.least < count() - i;  // idle passes come first
    if (options_.sync) options_.sync->begin_pass(meets_in_passes(options_) && is_accompanied);
    compute_pass(i, then);
    if (options_.sync) options_.sync->end_pass();
  }

  template <class Then>
  void compute_pass(int64_t i, const Then& then) {
    auto tensors = batch_.tensors(own(i).begin, own(i).end);
    if (options_.features) options_.features->fill(tensors);
    if (options_.compute.device.is_cuda() && !tensors.stamp.defined()) {  // once for all masks
      tensors.stamp = kernels::drop_stamp(step_, tensors.rows, options_.compute.device);
    }
    const nn::StepScope scope(nn::StepState{.seed = options_.seed,
                                            .step = step_,
                                            .rows = tensors.rows,
                                            .offsets = {},
                                            .stamp = tensors.stamp,
                                            .host_stamp = tensors.host_stamp});
    const auto loss = [&] {
      const trace::Scope forward("forward");
      return parts_.task.loss(parts_.model, tensors);
    }();
    then(loss);
  }

  // Else the one pass of a rank finds it itself, which then waits for the others in between.
  bool must_find_loss_of_batch() const {
    return meets_in_passes(options_) ? plan_.most > 1 || plan_.are_unequal() : count() != 1;
  }

  void find_loss_of_batch() {
    const at::NoGradGuard no_grad;
    for (int64_t i = 0; i < num_idle_; ++i) options_.sync->idle_pass(parallel::IdlePass::kForward);
    for (int64_t i = 0; i < count(); ++i) {
      in_pass(i, [&](const LossParts& loss) { of_batch_.add(loss); });
    }
    finish_loss_of_batch();
  }

  void finish_loss_of_batch() {
    agree();
    of_batch_.finish(plan_.has_empty_rank(), options_.compute.device);
  }

  void go_backward(const LossParts& loss, Sums& sums, bool is_last) {
    if (options_.scaler && !options_.scaler->knows_weight()) expect_weight(loss.weight);
    BackwardRoot root{.value = loss.loss_sum, .gradient = {}};
    auto loss_sum = loss.loss_sum;
    if (parts_.task.has_loss_of_batch()) {
      if (!of_batch_.is_whole()) {
        of_batch_.add(loss);
        finish_loss_of_batch();
      }
      root = {.value = loss.statistics, .gradient = of_batch_.gradient()};
      loss_sum = of_batch_.loss() * loss.weight;
    }
    // Nothing is exchanged while a rank may run out of memory in it.
    backward_pass(root, is_last && trial_ == nullptr, options_);
    add_to(sums.loss, loss_sum);
    sums.weight += loss.weight;
    for (const auto& [name, sum] : loss.sums) add_to(sums.further[name], sum);
  }

  // The first batch of a run has none before it. Where ranks cannot meet within a pass, and where
  // it must not depend on them, its samples are what it weighs.
  void expect_global_weight() {
    if (!options_.scaler || options_.scaler->knows_weight()) return;
    if (!plan_.has_slots() && !plan_.are_unequal()) return;
    options_.scaler->expect_weight(static_cast<double>(global_size_of(batch_)));
  }

  void expect_weight(double of_first_pass) {
    agree();
    std::array weight = {of_first_pass * static_cast<double>(count())};
    parallel::sum_over_ranks(ranks_of(options_), weight, "weight of the first batch");
    options_.scaler->expect_weight(weight[0]);
  }

  at::Tensor numbers_of(const Sums& sums, const std::vector<std::string>& names) const {
    const auto zero = [&] {
      return at::zeros({}, at::TensorOptions(options_.compute.device).dtype(at::kDouble));
    };
    std::vector<at::Tensor> numbers = {sums.loss.defined() ? sums.loss : zero()};
    for (const auto& name : names) {
      const auto found = sums.further.find(name);
      numbers.push_back(found == sums.further.end() ? zero() : found->second);
    }
    return at::stack(numbers);
  }

  StepSums take_sums() const {
    StepSums result{.names = {},
                    .numbers = {},
                    .is_empty = plan_.of_slots.is_empty,
                    .has_empty_rank = plan_.has_empty_rank(),
                    .device = options_.compute.device};
    std::set<std::string> names;
    for (const auto& sums : slots_) {
      for (const auto& [name, sum] : sums.further) names.insert(name);
      if (plan_.has_slots()) result.slot_weights.push_back(sums.weight);
    }
    if (!plan_.has_slots()) result.weight = slots_[0].weight;
    if (count() == 0) return result;
    result.names.assign(names.begin(), names.end());
    std::vector<at::Tensor> rows;
    for (const auto& sums : slots_) rows.push_back(numbers_of(sums, result.names));
    result.numbers = plan_.has_slots() ? at::stack(rows) : rows[0];
    return result;
  }

  const StepParts& parts_;
  const StepOptions& options_;
  const StepInput& batch_;
  uint32_t step_;
  PassTrial* trial_;
  PassPlan plan_;
  int64_t num_idle_ = 0;  // passes that others have and this rank goes along with
  LossOfBatch of_batch_;
  std::vector<Sums> slots_;  // [V], or one
};

// The same until memory is enough. Every rank takes the step anew where one has to.
StepSums run_smaller_passes(const StepParts& parts, const StepInput& batch, int64_t step) {
  const auto& options = parts.options;
  auto& passes = *options.passes;
  auto& ranks = ranks_of(options);
  const bool must_agree = ranks.size() > 1 && !passes.is_settled() && !meets_in_passes(options);
  const bool can_retry = ranks.size() == 1 ? !meets_in_passes(options) : must_agree;
  for (;;) {
    const auto size = size_of_pass(batch, options);
    PassTrial trial(ranks, size);
    std::string fault;
    try {
      auto sums = Passes(parts, batch, step, must_agree ? &trial : nullptr).run();
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

bool meets_in_passes(const StepOptions& options) {
  return options.sync && options.sync->meets_in_passes();
}

int64_t size_of_pass(const StepInput& batch, const StepOptions& options) {
  const auto chosen = options.passes ? options.passes->size() : options.micro_batch_size;
  if (options.slots == 0) return chosen > 0 ? chosen : std::max<int64_t>(1, batch.size);
  int64_t largest = 1;
  for (const auto& pass : plan_passes(batch, options).own) {
    largest = std::max(largest, pass.end - pass.begin);
  }
  return largest;
}

StepSums run_passes(const StepParts& parts, const StepInput& batch, int64_t step) {
  if (parts.options.passes) return run_smaller_passes(parts, batch, step);
  return Passes(parts, batch, step, /*trial=*/nullptr).run();
}

double factor_of_sums(const StepOptions& options) {
  return options.scaler ? options.scaler->factor_of_sums() : 1.0;
}

}  // namespace fovea::train
