// What `fovea bench model` repeats.
#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

#include "fovea/models/registry.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/bench.h"

namespace fovea::train {

// Seconds that `work` takes on the device, from idle to idle.
double seconds_of(c10::Device device, const std::function<void()>& work);

// One batch of random images through the model with step-0 weights: forward alone, or a whole
// training step.
class BenchWorkload {
 public:
  explicit BenchWorkload(const BenchOptions& options);

  void step();

 private:
  BenchOptions options_;
  models::ModelPtr model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  at::Tensor images_, labels_, rows_;
  int64_t step_ = 0;
};

}  // namespace fovea::train
