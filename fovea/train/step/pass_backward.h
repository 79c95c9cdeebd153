// What a pass goes by, and its backward: added to the gradients of the parameters, or captured.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "fovea/nn/forward_context.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/step/step.h"
#include "fovea/train/tasks/task.h"

namespace fovea::train {

// What drops of a pass of these samples are drawn by.
nn::StepState state_of_pass(TensorBatch& batch, int64_t step, const StepOptions& options);

// What backward starts from, with the gradient there; undefined: 1.
struct BackwardRoot {
  at::Tensor value, gradient;
};

// is_last: of the step; then gradients are exchanged while it runs.
void add_backward(const BackwardRoot& root, bool is_last, const StepOptions& options);

// What a pass adds to the gradient of each parameter, in their order; undefined where that has no
// part in it. No gradient of theirs changes: several threads may do it at once. Of parameters that
// no process has parts of alone.
std::vector<at::Tensor> captured_backward(const BackwardRoot& root,
                                          const std::vector<at::Tensor>& params,
                                          const StepOptions& options);
void add_captured(const std::vector<at::Tensor>& params, std::vector<at::Tensor> gradients);

// What the optimizer trains.
std::vector<at::Tensor> trained_params(const optim::Optimizer& optimizer);

}  // namespace fovea::train
