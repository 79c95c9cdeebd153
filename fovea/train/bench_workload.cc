#include "fovea/train/bench_workload.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <vector>

#include "fovea/nn/unit.h"
#include "fovea/optim/adamw.h"
#include "fovea/optim/config.h"
#include "fovea/optim/param_groups.h"

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
    : options_(options), model_(models::build_model(options.model, options.compute.device)) {
  model_->init_weights(kBenchSeed);
  model_->train(options.is_training);
  const auto spec = model_->input_spec();
  std::vector<int64_t> shape = {options.batch_size, spec.in_chans};
  shape.insert(shape.end(), spec.img_size.begin(), spec.img_size.end());
  images_ = at::randn(shape).to(options.compute.device, options.compute.dtype);
  rows_ = at::arange(options.batch_size);
  if (!options.is_training) return;
  const optim::OptimConfig config{optim::AdamWConfig()};
  optimizer_ = optim::make_optimizer(config, optim::param_groups(*model_, config));
}

void BenchWorkload::step() {
  if (!options_.is_training) {
    const c10::InferenceMode guard;
    model_->forward(images_);
    return;
  }
  const nn::StepScope scope(kBenchSeed, step_++, rows_);
  optimizer_->zero_grad();
  const auto logits = model_->forward(images_).to(at::kFloat);  // [B, num_classes]
  if (!labels_.defined()) {
    labels_ = at::randint(logits.size(1), {options_.batch_size}, at::kLong).to(logits.device());
  }
  at::cross_entropy_loss(logits, labels_).backward();
  optimizer_->step(/*lr=*/1e-3);
}

}  // namespace fovea::train
