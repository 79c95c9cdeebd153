#include "fovea/train/bench_workload.h"

#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>

#include "fovea/core/error.h"
#include "fovea/models/variables.h"
#include "fovea/nn/unit.h"
#include "fovea/optim/adamw.h"
#include "fovea/optim/config.h"
#include "fovea/optim/param_groups.h"
#include "fovea/train/example_batch.h"
#include "fovea/train/fp8_start.h"
#include "fovea/train/session.h"

namespace fovea::train {
namespace {

constexpr uint64_t kBenchSeed = 42;

void synchronize_with(c10::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

}  // namespace

double seconds_of(c10::Device device, const std::function<void()>& work) {
  synchronize_with(device);
  const auto start = std::chrono::steady_clock::now();
  work();
  synchronize_with(device);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

BenchWorkload::BenchWorkload(const BenchOptions& options)
    : options_(options),
      step_options_(step_options(options.config)),
      model_(models::build_model(options.config.model, step_options_.compute.device)),
      batch_(noise_batch(options.config, *model_, options.batch_size)) {
  model_->init_weights(kBenchSeed);
  model_->train(options.is_training);
  if (!options.is_training || !options.is_recipe) {
    sample_ = to_tensors(batch_, 0, options.batch_size, step_options_.compute);
  }
  if (!options.is_training) {
    copies_ = kernels::WeightCopies::of_model(model_->parameters());
    return;
  }
  if (!options.is_recipe) {
    const optim::OptimConfig config{optim::AdamWConfig()};
    optimizer_ = optim::make_optimizer(config, optim::param_groups(*model_, config));
    return;
  }
  if (!options.config.trainer.freeze.empty()) {
    freeze_parameters(*model_, options.config.trainer.freeze);
  }
  task_ = make_task(options.config.task, *model_);
  optimizer_ = make_optimizer(options.config, *model_);
  scaler_ = make_grad_scaler(options.config);
  step_options_.scaler = scaler_.get();
  fp8_ = make_fp8(options.config, *model_, step_options_.compute.device,
                  {.samples = options.batch_size});
  step_options_.fp8 = fp8_.get();
  stepper_.emplace(*model_, *task_, *optimizer_, /*ema=*/nullptr, step_options_,
                   numbers_on(step_options_.compute.device));
  use_graphs(*stepper_, options.config.device, step_options_.compute.device);
}

void BenchWorkload::step() {
  if (!options_.is_training) return infer();
  options_.is_recipe ? train_recipe() : train_classifier();
}

void BenchWorkload::infer() {
  const c10::InferenceMode guard;
  const models::ChannelScope channels(*model_, sample_.variables);
  forward(*model_, sample_);
}

void BenchWorkload::classifier_gradients() {
  const nn::StepScope scope(kBenchSeed, step_++, sample_.rows);
  const models::ChannelScope channels(*model_, sample_.variables);
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
    auto options = step_options_;
    options.max_grad_norm = options.max_grad_value = options.max_grad_ratio = 0;
    compute_gradients(*model_, *task_, *optimizer_, batch_, step_++, options);
  } else {
    classifier_gradients();
  }
  for (const auto& spec : optimizer_->params()) {
    named.emplace_back("gradients." + spec.name, spec.param.grad());
  }
  return named;
}

}  // namespace fovea::train
