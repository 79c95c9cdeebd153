// L layers, each with kTensors tensors.
#include "fovea/train/step/fp8_layers.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/kernels/linear/fp8.h"
#include "fovea/kernels/linear/fp8_linear.h"

namespace fovea::train {
namespace {

constexpr int64_t kTensors = 3;  // x, weight, gradient

bool has_fp8_widths(const at::Tensor& weight) {
  return weight.size(0) % kernels::kFp8Alignment == 0 &&
         weight.size(1) % kernels::kFp8Alignment == 0;
}

}  // namespace

NamedLinears fp8_candidates(nn::UnitImpl& model) {
  auto found = nn::block_linears(model);
  std::erase_if(found, [](const auto& one) { return !has_fp8_widths(one.second->weight); });
  return found;
}

// See Note [Delayed scaling]. On the device that computes, so that nobody waits for a number.
struct Fp8Layers::History {
  History(int64_t num_layers, at::Device device)
      : seen(at::zeros({num_layers, kTensors}, at::TensorOptions().device(device))),
        past(at::zeros_like(seen)),
        steps(at::zeros({kFp8History, num_layers, kTensors}, seen.options())) {}

  kernels::Fp8Scaling scaling(int64_t layer, int64_t tensor) const {
    const auto number = [&](const at::Tensor& of_all) {
      return of_all.view({-1}).narrow(0, layer * kTensors + tensor, 1);
    };
    return {.past = num_steps < kFp8History ? at::Tensor() : number(past), .seen = number(seen)};
  }

  at::Tensor seen, past;  // [L, kTensors]: in this step, and over the history
  at::Tensor steps;       // [kFp8History, L, kTensors], the last one behind
  int64_t num_steps = 0;
};

Fp8Layers::Fp8Layers(NamedLinears layers, Fp8Scale scale, at::Device device,
                     parallel::Communicator& all, bool keeps_codes)
    : layers_(std::move(layers)), all_(all) {
  if (scale == Fp8Scale::kDelayed) {
    history_ = std::make_shared<History>(static_cast<int64_t>(layers_.size()), device);
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    codes_.push_back(keeps_codes ? std::make_shared<kernels::Fp8WeightCodes>() : nullptr);
    layers_[i].second->training_product =
        [history = history_, codes = codes_.back(), layer = static_cast<int64_t>(i)](
            const at::Tensor& x, const std::optional<kernels::HiddenActivation>& activation,
            const at::Tensor& weight, const at::Tensor& bias) {
          kernels::Fp8LinearScaling scaling;
          if (history) {
            scaling = {.x = history->scaling(layer, 0),
                       .weight = history->scaling(layer, 1),
                       .gradient = history->scaling(layer, 2)};
          }
          scaling.codes = codes;
          return kernels::fp8_linear(x, activation, weight, bias, scaling);
        };
  }
}

Fp8Layers::~Fp8Layers() {
  for (const auto& [name, layer] : layers_) layer->training_product = nullptr;
}

std::vector<std::string> Fp8Layers::names() const {
  std::vector<std::string> names;
  for (const auto& [name, layer] : layers_) names.push_back(name);
  return names;
}

void Fp8Layers::after_step() {
  for (const auto& codes : codes_) {
    if (codes) codes->forget();
  }
  if (!history_) return;
  const at::NoGradGuard no_grad;
  auto& [seen, past, steps, num_steps] = *history_;
  seen.copy_(at::where(at::isfinite(seen), seen, at::zeros_like(seen)));
  all_.all_reduce(seen, "largest values for FP8", parallel::ReduceOp::kMax);
  steps.copy_(at::cat({steps.narrow(0, 1, kFp8History - 1), seen.unsqueeze(0)}));
  past.copy_(at::amax(steps, {0}));
  seen.zero_();
  num_steps += 1;
}

nlohmann::json Fp8Layers::state() const {
  nlohmann::json state = {{"layers", names()}};
  if (!history_) return state;
  const auto steps = history_->steps.to(at::kCPU).contiguous();
  const auto* values = steps.const_data_ptr<float>();
  state["num_steps"] = history_->num_steps;
  state["history"] = std::vector<float>(values, values + steps.numel());
  return state;
}

std::vector<std::string> Fp8Layers::names_in(const nlohmann::json& state) {
  try {
    return state.at("layers").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    fail<CheckpointError>("the state of FP8 is damaged: {}; expected the names of layers",
                          error.what());
  }
}

void Fp8Layers::load_state(const nlohmann::json& state) {
  if (!history_) return;
  if (!state.contains("history") || names_in(state) != names()) {
    log_info("device.fp8: the checkpoint has no scales of these layers; they start anew");
    return;
  }
  auto& [seen, past, steps, num_steps] = *history_;
  std::vector<float> values;
  try {
    state.at("history").get_to(values);
    state.at("num_steps").get_to(num_steps);
  } catch (const nlohmann::json::exception& error) {
    fail<CheckpointError>(
        "the state of FP8 is damaged: {}; expected history and num_steps, numbers", error.what());
  }
  if (static_cast<int64_t>(values.size()) != steps.numel() || num_steps < 0) {
    fail<CheckpointError>(
        "the state of FP8 is damaged: {} numbers of {} steps; expected {}: {} steps of {} layers",
        values.size(), num_steps, steps.numel(), kFp8History, layers_.size());
  }
  steps.copy_(at::tensor(values).view(steps.sizes()));
  past.copy_(at::amax(steps, {0}));
  seen.zero_();
}

}  // namespace fovea::train
