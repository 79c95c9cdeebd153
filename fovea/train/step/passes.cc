#include "fovea/train/step/passes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "fovea/core/trace.h"
#include "fovea/kernels/out_of_memory.h"
#include "fovea/nn/forward_context.h"
#include "fovea/train/step/loss_of_batch.h"
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
        size_(size_of_pass(batch, parts.options)),
        count_((batch.size + size_ - 1) / size_),
        of_batch_(parts.task, ranks_of(parts.options)) {}

  StepSums run() {
    parts_.optimizer.zero_grad();
    if (parts_.task.has_loss_of_batch() && count_ > 1) find_loss_of_batch();
    for (int64_t pass = 0; pass < count_; ++pass) {
      in_pass(pass, [&](const LossParts& loss) { go_backward(loss, pass + 1 == count_); });
    }
    agree();
    if (trial_) trial_->close();
    if (options_.sync) options_.sync->finish();
    if (options_.fp8) options_.fp8->after_step();
    return take_sums();
  }

 private:
  void agree() {
    if (trial_) trial_->agree();
  }

  // Calls then(loss) with what drops are drawn by still in place.
  template <class Then>
  void in_pass(int64_t pass, const Then& then) {
    auto tensors = batch_.tensors(pass * size_, std::min(batch_.size, (pass + 1) * size_));
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

  void find_loss_of_batch() {
    const at::NoGradGuard no_grad;
    for (int64_t pass = 0; pass < count_; ++pass) {
      in_pass(pass, [&](const LossParts& loss) { of_batch_.add(loss); });
    }
    agree();
    of_batch_.finish();
  }

  void go_backward(const LossParts& loss, bool is_last) {
    if (options_.scaler && !options_.scaler->knows_weight()) expect_weight(loss.weight);
    BackwardRoot root{.value = loss.loss_sum, .gradient = {}};
    auto loss_sum = loss.loss_sum;
    if (parts_.task.has_loss_of_batch()) {
      if (!of_batch_.is_whole()) {
        of_batch_.add(loss);
        agree();
        of_batch_.finish();
      }
      root = {.value = loss.statistics, .gradient = of_batch_.gradient()};
      loss_sum = of_batch_.loss() * loss.weight;
    }
    // Nothing is exchanged while a rank may run out of memory in it.
    backward_pass(root, is_last && trial_ == nullptr, options_);
    add_to(loss_, loss_sum);
    weight_ += loss.weight;
    for (const auto& [name, sum] : loss.sums) add_to(sums_[name], sum);
  }

  // The first batch of a run has none before it.
  void expect_weight(double of_first_pass) {
    agree();
    std::array weight = {of_first_pass * static_cast<double>(count_)};
    parallel::sum_over_ranks(ranks_of(options_), weight, "weight of the first batch");
    options_.scaler->expect_weight(weight[0]);
  }

  StepSums take_sums() const {
    StepSums result{.weight = weight_, .names = {}, .numbers = {}};
    if (!loss_.defined()) return result;
    std::vector<at::Tensor> numbers = {loss_};
    for (const auto& [name, sum] : sums_) {
      result.names.push_back(name);
      numbers.push_back(sum);
    }
    result.numbers = at::stack(numbers);
    return result;
  }

  const StepParts& parts_;
  const StepOptions& options_;
  const StepInput& batch_;
  uint32_t step_;
  PassTrial* trial_;
  int64_t size_, count_;
  LossOfBatch of_batch_;
  at::Tensor loss_;
  double weight_ = 0;
  std::map<std::string, at::Tensor> sums_;
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
  return chosen > 0 ? chosen : std::max<int64_t>(1, batch.size);
}

StepSums run_passes(const StepParts& parts, const StepInput& batch, int64_t step) {
  if (parts.options.passes) return run_smaller_passes(parts, batch, step);
  return Passes(parts, batch, step, /*trial=*/nullptr).run();
}

double factor_of_sums(const StepOptions& options) {
  return options.scaler ? options.scaler->factor_of_sums() : 1.0;
}

}  // namespace fovea::train
