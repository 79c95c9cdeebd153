#include "fovea/optim/flat_optimizer.h"

#include <ATen/core/grad_mode.h>

#include "fovea/core/error.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::optim {

FlatOptimizer::FlatOptimizer(std::string name, std::vector<ParamSpec> params)
    : name_(std::move(name)), flat_(std::move(params)) {}

void FlatOptimizer::step(double lr) {
  const at::NoGradGuard no_grad;
  flat_.grad();  // takes in what stands beside the buffer
  ++steps_taken_;
  {
    // Gradients are read, parameters and moments read and written.
    int64_t bytes = 3 * static_cast<int64_t>(flat_.param().nbytes());
    for (const auto& [name, moment] : state_) bytes += 2 * static_cast<int64_t>(moment.nbytes());
    const kernels::WorkScope work("fovea::optimizer_update", 0, bytes);
    update(lr);
  }
  mark_changed();
}

void FlatOptimizer::mark_changed() {
  flat_.mark_changed();
  tell_changed();
}

void FlatOptimizer::add_state(const std::string& moment, size_t i, const at::Tensor& tensor) {
  state_[moment + "/" + params().at(i).name] = tensor;
}

void FlatOptimizer::load_state(const std::map<std::string, at::Tensor>& state,
                               int64_t steps_taken) {
  if (steps_taken < 0) {
    fail<CheckpointError>("state of optimizer {}: found {} steps taken, expected 0 or more", name_,
                          steps_taken);
  }
  copy_by_name(state, state_, "state of optimizer " + name_);
  steps_taken_ = steps_taken;
}

}  // namespace fovea::optim
