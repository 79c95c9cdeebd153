#include "fovea/train/step/pass_backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/trace.h"
#include "fovea/kernels/elementwise/drop.h"
#include "fovea/train/step/passes.h"

namespace fovea::train {
namespace {

BackwardRoot scaled(BackwardRoot root, const StepOptions& options) {
  if (!options.scaler) return root;
  const double factor = factor_of_sums(options);
  root.gradient =
      root.gradient.defined() ? root.gradient * factor : at::full_like(root.value, factor);
  return root;
}

}  // namespace

nn::StepState state_of_pass(TensorBatch& batch, int64_t step, const StepOptions& options) {
  const auto number = static_cast<uint32_t>(step);
  if (options.compute.device.is_cuda() && !batch.stamp.defined()) {  // once for all masks
    batch.stamp = kernels::drop_stamp(number, batch.rows, options.compute.device);
  }
  return {.seed = options.seed,
          .step = number,
          .rows = batch.rows,
          .offsets = {},
          .stamp = batch.stamp,
          .host_stamp = batch.host_stamp};
}

void add_backward(const BackwardRoot& root, bool is_last, const StepOptions& options) {
  if (options.sync) options.sync->before_backward(is_last);
  {
    const trace::Scope backward("backward");
    const auto [value, gradient] = scaled(root, options);
    value.backward(gradient);
  }
  if (options.sync) options.sync->after_backward();
}

std::vector<at::Tensor> captured_backward(const BackwardRoot& root,
                                          const std::vector<at::Tensor>& params,
                                          const StepOptions& options) {
  const trace::Scope backward("backward");
  const auto [value, gradient] = scaled(root, options);
  torch::autograd::variable_list of_root;
  if (gradient.defined()) of_root.push_back(gradient);
  return torch::autograd::grad({value}, params, of_root, /*retain_graph=*/false,
                               /*create_graph=*/false, /*allow_unused=*/true);
}

// As autograd adds to a gradient that is there.
void add_captured(const std::vector<at::Tensor>& params, std::vector<at::Tensor> gradients) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < params.size(); ++i) {
    const auto gradient = std::exchange(gradients[i], {});
    if (!gradient.defined()) continue;
    FOVEA_CHECK(params[i].grad().defined(), "parameter {} has no place for its gradient", i);
    params[i].grad().add_(gradient);
  }
}

std::vector<at::Tensor> trained_params(const optim::Optimizer& optimizer) {
  std::vector<at::Tensor> params;
  for (const auto& spec : optimizer.params()) params.push_back(spec.param);
  return params;
}

}  // namespace fovea::train
