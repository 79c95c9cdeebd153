#include "fovea/kernels/linear/leaf_gradient.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

namespace fovea::kernels {
namespace {

namespace impl = torch::autograd::impl;

// backward() of all leaves: others name those that they want.
bool is_of_all_leaves() {
  const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
  return wanted != nullptr && wanted->empty();
}

bool has_hooks(const at::Tensor& leaf) {
  const auto accumulator = impl::try_get_grad_accumulator(leaf);
  return !impl::hooks(leaf).empty() || impl::post_acc_grad_hooks(leaf) != nullptr ||
         (accumulator &&
          !(accumulator->tensor_pre_hooks().empty() && accumulator->pre_hooks().empty()));
}

}  // namespace

at::Tensor gradient_to_add_to(const at::Tensor& weight) {
  if (at::GradMode::is_enabled() || !weight.is_leaf() || !weight.requires_grad()) return {};
  const auto& gradient = weight.grad();
  const bool can_add = gradient.defined() && gradient.scalar_type() == at::kFloat &&
                       gradient.is_contiguous() && gradient.device() == weight.device() &&
                       gradient.sizes() == weight.sizes();
  return can_add && is_of_all_leaves() && !has_hooks(weight) ? gradient : at::Tensor();
}

}  // namespace fovea::kernels
