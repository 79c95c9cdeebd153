#include "fovea/train/bench/bench_workload.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <chrono>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/kernels/device.h"
#include "fovea/nn/forward_context.h"
#include "fovea/optim/adamw.h"
#include "fovea/optim/clip.h"
#include "fovea/optim/config.h"
#include "fovea/optim/param_groups.h"
#include "fovea/train/bench/example_batch.h"
#include "fovea/train/evaluate/int8_calibration.h"
#include "fovea/train/recipe/int8_layers.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

constexpr uint64_t kBenchSeed = 42;

BenchOptions with_config(BenchOptions options, TrainConfig config) {
  options.config = std::move(config);
  return options;
}

}  // namespace

TrainConfig one_process_config(TrainConfig config) {
  config.run.seed = kBenchSeed;
  config.init = {};
  const auto recompute = config.parallel.recompute;
  const auto every = config.parallel.recompute_every;
  config.parallel = {};
  config.parallel.recompute = recompute;
  config.parallel.recompute_every = every;
  return config;
}

double seconds_of(c10::Device device, const std::function<void()>& work) {
  kernels::synchronize(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  kernels::synchronize(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

BenchWorkload::BenchWorkload(const BenchOptions& options)
    : options_(with_config(options, one_process_config(options.config))) {
  const auto& config = options_.config;
  if (options_.is_int8 && options_.is_training) {
    fail<ConfigError>("bench of int8: expected inference; found training, which has no int8");
  }
  const auto step_options = train::step_options(config);
  if (options_.is_training && options_.is_recipe) {
    state_.emplace(config, mesh_, step_options);
    state_->start_fp8(options_.batch_size, /*saved=*/nullptr);
    model_ = state_->model;
  } else {
    model_ = models::build_model(config.model, step_options.compute.device);
    model_->init_weights(kBenchSeed);
  }
  model_->train(options_.is_training);
  batch_ = noise_batch(config, *model_, options_.batch_size);
  if (state_) {
    stepper_.emplace(state_->step_parts(), numbers_on(step_options.compute.device));
    use_graphs(*stepper_, config.device, step_options.compute.device);
    return;
  }
  sample_ = to_tensors(batch_, 0, options_.batch_size, step_options.compute);
  if (options_.is_training) {
    const optim::OptimConfig adamw{optim::AdamWConfig()};
    optimizer_ = optim::make_optimizer(adamw, optim::param_groups(*model_, adamw));
  } else {
    copies_ = kernels::WeightCopies::of_model(model_->parameters());
    if (options_.is_int8) start_int8();
  }
}

void BenchWorkload::start_int8() {
  const auto& int8 = options_.config.int8;
  std::optional<Int8Ranges> ranges;
  if (int8.activations == "calibrated") {
    const Int8Calibration calibration(*model_, *copies_, int8.skip);
    infer();
    ranges = calibration.ranges(Int8RangeRule::kMinMax, options_.batch_size);
  }
  use_int8(*model_, *copies_, int8, ranges ? &*ranges : nullptr);
}

void BenchWorkload::step() {
  if (!options_.is_training) return infer();
  options_.is_recipe ? train_recipe() : train_classifier();
}

void BenchWorkload::infer() {
  const c10::InferenceMode guard;
  forward(*model_, sample_);
}

void BenchWorkload::classifier_gradients() {
  const nn::StepScope scope(kBenchSeed, step_++, sample_.rows);
  optimizer_->zero_grad();
  const auto logits = forward(*model_, sample_).to(at::kFloat);  // [B, num_classes]
  at::cross_entropy_loss(logits, sample_.labels).backward();
}

void BenchWorkload::train_classifier() {
  classifier_gradients();
  optimizer_->step(/*lr=*/1e-3);
}

void BenchWorkload::train_recipe() {
  stepper_->take(batch_, step_++, /*lr=*/1e-4);
  // As often as a long run with the defaults of `log` asks.
  constexpr int64_t kManySteps = 2000;
  const bool is_due = stepper_->num_taken() == steps_of_a_line(LogConfig(), kManySteps);
  if (is_due || !stepper_->is_late()) stepper_->outcomes();
}

nn::NamedTensors BenchWorkload::gradients() {
  if (batch_.images.empty() || !batch_.masks.empty() || !batch_.targets.empty()) {
    fail<ConfigError>(
        "gradients for a comparison: expected a model of whole images and their classes; found {}",
        batch_.images.empty()   ? "one of patches"
        : !batch_.masks.empty() ? "a task with masks"
                                : "labels that are mixed (data.mixup)");
  }
  nn::NamedTensors named = {{"images", at::tensor(batch_.images).view(batch_.image_shape)},
                            {"labels", at::tensor(batch_.labels)}};
  for (const auto& item : model_->named_parameters()) {
    named.emplace_back("weights." + item.key(), item.value().detach().clone());
  }
  if (options_.is_recipe) {
    auto options = state_->options;
    options.max_grad_norm = options.max_grad_value = options.max_grad_ratio = 0;
    const StepParts parts{.model = *model_,
                          .task = *state_->task,
                          .optimizer = *state_->optimizer,
                          .options = options};
    const auto prepared = prepare_step(parts, batch_, step_++);
    if (outcome_of(prepared, options).is_skipped) {
      fail<DivergedError>("gradients for a comparison are not finite with this loss scale");
    }
    optim::scale_gradients(parts.optimizer.flat_grad(), prepared.clip);
  } else {
    classifier_gradients();
  }
  for (const auto& spec : (state_ ? state_->optimizer : optimizer_)->params()) {
    named.emplace_back("gradients." + spec.name, spec.param.grad());
  }
  return named;
}

}  // namespace fovea::train
