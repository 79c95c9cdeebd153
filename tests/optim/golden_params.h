// The parameters and gradients of tests/golden/optimizers.safetensors.
#pragma once

#include <ATen/core/grad_mode.h>

#include <string>
#include <vector>

#include "fovea/optim/optimizer.h"
#include "tests/support/close.h"
#include "tests/support/golden.h"

namespace fovea::optim {

inline std::vector<ParamSpec> golden_params(const support::Golden& golden) {
  std::vector<ParamSpec> params;
  for (const auto& [name, settings] : golden.config.at("groups").items()) {
    auto param = golden.at("start/" + name).clone().set_requires_grad(true);
    params.push_back({name, param, settings.at(0), settings.at(1)});
  }
  return params;
}

// All steps of the golden file: gradients are added into .grad(), as backward does.
inline void take_golden_steps(Optimizer& optimizer, const support::Golden& golden, size_t first = 0,
                              size_t last = 100, double lr_factor = 1) {
  const auto& lrs = golden.config.at("lrs");
  const at::NoGradGuard no_grad;
  for (size_t step = first; step < std::min(last, lrs.size()); ++step) {
    optimizer.zero_grad();
    for (const auto& spec : optimizer.params()) {
      auto grad = spec.param.grad();
      grad.add_(golden.at("grad" + std::to_string(step) + "/" + spec.name));
    }
    optimizer.step(lrs[step].get<double>() * lr_factor);
  }
}

// The parameters as they stand, as leaves of their own: for a second optimizer that goes on.
inline std::vector<ParamSpec> copied_params(const Optimizer& optimizer) {
  auto params = optimizer.params();
  for (auto& spec : params) spec.param = spec.param.detach().clone().set_requires_grad(true);
  return params;
}

inline support::NamedTensors values_of(const Optimizer& optimizer) {
  support::NamedTensors values;
  for (const auto& spec : optimizer.params()) values[spec.name] = spec.param.detach().clone();
  return values;
}

inline void expect_same_values(const Optimizer& actual, const Optimizer& expected) {
  const auto values = values_of(expected);
  for (const auto& [name, value] : values_of(actual)) {
    support::expect_same_bits(value, values.at(name), name);
  }
}

// Seven steps at once against three, saved state and a new optimizer for the rest, bit for bit.
template <class Make>
void expect_same_after_resume(const support::Golden& golden, const Make& make) {
  const auto whole = make(golden_params(golden));
  take_golden_steps(*whole, golden);
  const auto first = make(golden_params(golden));
  take_golden_steps(*first, golden, 0, 3);
  const auto second = make(copied_params(*first));
  second->load_state(first->state(), first->steps_taken());
  take_golden_steps(*second, golden, 3);
  expect_same_values(*second, *whole);
}

// Sets a model's parameters to the "start/" tensors of `golden`.
template <class Model>
void load_start(Model& model, const support::Golden& golden) {
  const at::NoGradGuard no_grad;
  for (const auto& item : model.named_parameters()) {
    item.value().copy_(golden.at("start/" + item.key()));
  }
}

}  // namespace fovea::optim
