// Weights for layer tests: random, never zero or one.
#pragma once

#include <torch/nn/module.h>

#include "tests/support/close.h"

namespace fovea::nn {

inline void randomize(torch::nn::Module& module, uint64_t seed) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : module.parameters()) {
    parameter.copy_(support::random(parameter.sizes().vec(), at::kFloat, ++seed) * 0.5 + 0.25);
  }
}

}  // namespace fovea::nn
