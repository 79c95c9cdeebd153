#include "fovea/optim/elementwise_optimizer.h"

#include <algorithm>
#include <numeric>

#include "fovea/core/error.h"

namespace fovea::optim {

std::vector<PlainGroup> plain_groups(FlatParams& flat, const std::vector<size_t>& which,
                                     const std::vector<std::vector<at::Tensor>>& moments) {
  std::vector<PlainGroup> groups;
  const auto param_views = flat.views(flat.param()), grad_views = flat.views(flat.grad());
  for (size_t at = 0; at < which.size(); ++at) {
    const auto& spec = flat.params()[which[at]];
    auto group = std::find_if(groups.begin(), groups.end(), [&](const PlainGroup& other) {
      return other.lr_scale == spec.lr_scale && other.weight_decay == spec.weight_decay;
    });
    if (group == groups.end()) {
      groups.push_back({.lr_scale = spec.lr_scale,
                        .weight_decay = spec.weight_decay,
                        .params = {},
                        .grads = {},
                        .moments = std::vector<std::vector<at::Tensor>>(moments.size())});
      group = groups.end() - 1;
    }
    group->params.push_back(param_views[which[at]]);
    group->grads.push_back(grad_views[which[at]]);
    for (size_t m = 0; m < moments.size(); ++m) group->moments[m].push_back(moments[m][at]);
  }
  return groups;
}

bool use_fused(Implementation implementation, const FlatParams& flat, const std::string& optimizer,
               bool has_kernel) {
  const bool can_be =
      (flat.param().is_cpu() || has_kernel) && flat.param().scalar_type() == at::kFloat;
  FOVEA_CHECK(can_be || implementation != Implementation::kFused,
              "optimizer {}: the fused update is for float32, on the CPU or where the optimizer "
              "has a kernel; the parameters are {} on {}",
              optimizer, c10::toString(flat.param().scalar_type()), flat.param().device().str());
  return can_be && implementation != Implementation::kPlain;
}

ElementwiseOptimizer::ElementwiseOptimizer(std::string name, std::vector<ParamSpec> params,
                                           const std::vector<std::string>& moment_names,
                                           Implementation implementation,
                                           const HasKernel& has_kernel)
    : FlatOptimizer(std::move(name), std::move(params)) {
  std::vector<std::vector<at::Tensor>> views;
  for (const auto& moment : moment_names) {
    moments_.push_back(flat().make_buffer());
    views.push_back(flat().views(moments_.back()));
    for (size_t i = 0; i < views.back().size(); ++i) add_state(moment, i, views.back()[i]);
  }
  const bool is_on_device = has_kernel && has_kernel(flat().param().device());
  if (use_fused(implementation, flat(), this->name(), is_on_device)) return;
  std::vector<size_t> all(this->params().size());
  std::iota(all.begin(), all.end(), size_t{0});
  groups_ = plain_groups(flat(), all, views);
}

void ElementwiseOptimizer::update(double lr) {
  if (is_fused()) return update_fused(flat().grad(), lr);
  for (auto& group : groups_) update_group(group, lr);
}

}  // namespace fovea::optim
