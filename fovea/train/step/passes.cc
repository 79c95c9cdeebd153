#include "fovea/train/step/passes.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/core/trace.h"
#include "fovea/kernels/device_memory.h"
#include "fovea/kernels/out_of_memory.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/step/concurrent_passes.h"
#include "fovea/train/step/loss_of_batch.h"
#include "fovea/train/step/pass_backward.h"
#include "fovea/train/step/pass_plan.h"
#include "fovea/train/step/pass_size.h"
#include "fovea/train/step/pass_sums.h"

namespace fovea::train {
namespace {

parallel::Communicator& ranks_of(const StepOptions& options) {
  return options.ranks ? *options.ranks : parallel::one_rank();
}

// What of a pass is summed, without its graph.
LossParts without_graph(const LossParts& loss) {
  LossParts kept{.loss_sum = loss.loss_sum.detach(),
                 .weight = loss.weight,
                 .statistics = loss.statistics.defined() ? loss.statistics.detach() : at::Tensor(),
                 .sums = {},
                 .outputs = {}};
  for (const auto& [name, sum] : loss.sums) kept.sums[name] = sum.detach();
  return kept;
}

// One try at the passes of a step.
class Passes {
 public:
  // trial: null, or where ranks agree before each exchange that all of them have come to it.
  Passes(const StepParts& parts, const StepInput& batch, int64_t step, PassTrial* trial)
      : parts_(parts),
        options_(parts.options),
        batch_(batch),
        step_(step),
        trial_(trial),
        plan_(plan_passes(batch, parts.options)),
        of_batch_(parts.task, ranks_of(parts.options)),
        sums_(plan_) {
    if (meets_in_passes(options_)) num_idle_ = plan_.most - count();
    const bool has_order = meets_in_passes(options_) || options_.fp8 || options_.features;
    FOVEA_CHECK(!options_.concurrent || !has_order,
                "passes at once of a model that is shared out, in FP8 or frozen");
  }

  StepSums run() {
    parts_.optimizer.zero_grad();
    expect_global_weight();
    if (parts_.task.has_loss_of_batch() && must_find_loss_of_batch()) find_loss_of_batch();
    for (int64_t i = 0; i < num_idle_; ++i) {
      const bool is_last = count() == 0 && i + 1 == num_idle_;
      options_.sync->idle_pass(is_last ? parallel::IdlePass::kLastBackward
                                       : parallel::IdlePass::kBackward);
    }
    over_passes([&](int64_t workers) { add_up(workers); });
    agree();
    if (trial_) trial_->close();
    if (options_.sync) options_.sync->finish();
    if (options_.fp8) options_.fp8->after_step();
    auto sums = sums_.take(plan_, options_.compute.device);
    if (options_.sync) sums.halves = options_.sync->halves();
    return sums;
  }

 private:
  int64_t count() const { return std::ssize(plan_.own); }
  const Pass& own(int64_t i) const { return plan_.own[static_cast<size_t>(i)]; }

  void agree() {
    if (trial_) trial_->agree();
  }

  // How many passes are computed at the same time: see Note [Passes at once].
  int64_t at_once() const {
    if (options_.scaler && !options_.scaler->knows_weight()) return 1;
    if (count() == 1 && parts_.task.has_loss_of_batch()) return 1;  // it finds the loss in between
    if (!options_.concurrent) return 1;
    int64_t most = 0;
    for (const auto& pass : plan_.own) most = std::max(most, pass.end - pass.begin);
    return options_.concurrent->at_once(count(), most);
  }

  // Calls passes(how many at the same time), anew where memory runs out in several: until all are
  // done no sum is taken, and no other process knows of them.
  template <class Body>
  void over_passes(const Body& passes) {
    for (;;) {
      const int64_t workers = at_once();
      try {
        return passes(workers);
      } catch (const std::exception& error) {
        const bool is_known = workers > 1 && kernels::is_out_of_memory(error);
        if (!is_known || !options_.concurrent->take_fewer(workers)) throw;
      }
      parts_.optimizer.zero_grad();
      kernels::release_kept_memory(options_.compute.device);
    }
  }

  // All passes, with their gradients.
  void add_up(int64_t workers) {
    if (options_.sync && plan_.has_slots()) options_.sync->begin_slots(plan_.of_slots);
    const auto passes = [&] { workers > 1 ? add_at_once(workers) : add_in_turn(); };
    options_.concurrent ? options_.concurrent->run(count(), batch_.size, passes) : passes();
  }

  void add_in_turn() {
    int64_t slot = plan_.slots.first;
    for (int64_t i = 0; i < count(); ++i) {
      end_slots(slot, own(i).slot);
      in_pass(i, [&](const LossParts& loss) { go_backward(loss, own(i).slot, i + 1 == count()); });
    }
    end_slots(slot, plan_.slots.last);
  }

  void add_at_once(int64_t workers) {
    const auto params = trained_params(parts_.optimizer);
    std::vector<LossParts> losses(plan_.own.size());
    std::vector<std::vector<at::Tensor>> gradients(plan_.own.size());
    int64_t slot = plan_.slots.first;
    options_.concurrent->workers().run(
        workers, count(),
        [&](int64_t i) {
          compute_pass(i, [&](const LossParts& loss) {
            gradients[static_cast<size_t>(i)] = captured_backward(root_of(loss), params, options_);
            losses[static_cast<size_t>(i)] = without_graph(loss);
          });
        },
        [&](int64_t i) {
          end_slots(slot, own(i).slot);
          add_captured(params, std::move(gradients[static_cast<size_t>(i)]));
        });
    end_slots(slot, plan_.slots.last);
    for (int64_t i = 0; i < count(); ++i) {
      const auto& loss = losses[static_cast<size_t>(i)];
      sums_.add(loss, loss_sum_of(loss), own(i).slot);
    }
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
    const nn::StepScope scope(state_of_pass(tensors, step_, options_));
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
    over_passes([&](int64_t workers) {
      if (workers > 1) return add_statistics_at_once(workers);
      for (int64_t i = 0; i < count(); ++i) {
        in_pass(i, [&](const LossParts& loss) { of_batch_.add(loss); });
      }
    });
    finish_loss_of_batch();
  }

  void add_statistics_at_once(int64_t workers) {
    std::vector<LossParts> losses(plan_.own.size());
    options_.concurrent->workers().run(
        workers, count(),
        [&](int64_t i) {
          compute_pass(i, [&](const LossParts& loss) {
            losses[static_cast<size_t>(i)] = without_graph(loss);
          });
        },
        [](int64_t) {});
    for (const auto& loss : losses) of_batch_.add(loss);
  }

  void finish_loss_of_batch() {
    agree();
    of_batch_.finish(plan_.has_empty_rank(), options_.compute.device);
  }

  // The loss of the whole batch, where it is one, is known.
  BackwardRoot root_of(const LossParts& loss) const {
    if (!parts_.task.has_loss_of_batch()) return {.value = loss.loss_sum, .gradient = {}};
    return {.value = loss.statistics, .gradient = of_batch_.gradient()};
  }

  at::Tensor loss_sum_of(const LossParts& loss) const {
    return parts_.task.has_loss_of_batch() ? of_batch_.loss() * loss.weight : loss.loss_sum;
  }

  void go_backward(const LossParts& loss, int64_t slot, bool is_last) {
    if (options_.scaler && !options_.scaler->knows_weight()) expect_weight(loss.weight);
    if (parts_.task.has_loss_of_batch() && !of_batch_.is_whole()) {
      of_batch_.add(loss);
      finish_loss_of_batch();
    }
    // Nothing is exchanged while a rank may run out of memory in it.
    add_backward(root_of(loss), is_last && trial_ == nullptr, options_);
    sums_.add(loss, loss_sum_of(loss), slot);
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

  const StepParts& parts_;
  const StepOptions& options_;
  const StepInput& batch_;
  int64_t step_;
  PassTrial* trial_;
  PassPlan plan_;
  int64_t num_idle_ = 0;  // passes that others have and this rank goes along with
  LossOfBatch of_batch_;
  PassSums sums_;
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
    kernels::release_kept_memory(options.compute.device);
  }
}

}  // namespace

bool meets_in_passes(const StepOptions& options) {
  return options.sync && options.sync->meets_in_passes();
}

StepSums run_passes(const StepParts& parts, const StepInput& batch, int64_t step) {
  if (parts.options.passes) return run_smaller_passes(parts, batch, step);
  return Passes(parts, batch, step, /*trial=*/nullptr).run();
}

double factor_of_sums(const StepOptions& options) {
  return options.scaler ? options.scaler->factor_of_sums() : 1.0;
}

}  // namespace fovea::train
