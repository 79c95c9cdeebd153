#include "fovea/optim/flat_optimizer.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::optim {

FlatOptimizer::FlatOptimizer(std::string name, std::vector<ParamSpec> params,
                             std::vector<std::string> moment_names, Implementation implementation)
    : name_(std::move(name)), flat_(std::move(params)), moment_names_(std::move(moment_names)) {
  for (size_t i = 0; i < moment_names_.size(); ++i) moments_.push_back(flat_.make_buffer());
  const bool is_cpu = flat_.param().is_cpu();
  FOVEA_CHECK(is_cpu || implementation != Implementation::kFused,
              "optimizer {}: the fused update runs on the CPU, the parameters are on {}", name_,
              flat_.param().device().str());
  if (!is_cpu || implementation == Implementation::kPlain) groups_ = plain_groups();
}

std::vector<PlainGroup> FlatOptimizer::plain_groups() {
  std::vector<PlainGroup> groups;
  const auto param_views = flat_.views(flat_.param()), grad_views = flat_.views(flat_.grad());
  std::vector<std::vector<at::Tensor>> moment_views;
  for (const auto& moment : moments_) moment_views.push_back(flat_.views(moment));
  for (size_t i = 0; i < params().size(); ++i) {
    const auto& spec = params()[i];
    auto group = std::find_if(groups.begin(), groups.end(), [&](const PlainGroup& other) {
      return other.lr_scale == spec.lr_scale && other.weight_decay == spec.weight_decay;
    });
    if (group == groups.end()) {
      groups.push_back({.lr_scale = spec.lr_scale,
                        .weight_decay = spec.weight_decay,
                        .params = {},
                        .grads = {},
                        .moments = std::vector<std::vector<at::Tensor>>(moments_.size())});
      group = groups.end() - 1;
    }
    group->params.push_back(param_views[i]);
    group->grads.push_back(grad_views[i]);
    for (size_t m = 0; m < moments_.size(); ++m) group->moments[m].push_back(moment_views[m][i]);
  }
  return groups;
}

void FlatOptimizer::step(double lr) {
  const at::NoGradGuard no_grad;
  grad_ = &flat_.grad();
  ++steps_taken_;
  if (groups_.empty()) {
    for_each_tile(flat_.segments(), [&](size_t i, int64_t begin, int64_t end) {
      update_segment(params()[i], begin, end, lr);
    });
  } else {
    for (auto& group : groups_) update_group(group, lr);
  }
  flat_.mark_changed();
}

std::map<std::string, at::Tensor> FlatOptimizer::state() {
  std::map<std::string, at::Tensor> result;
  for (size_t m = 0; m < moments_.size(); ++m) {
    const auto views = flat_.views(moments_[m]);
    for (size_t i = 0; i < views.size(); ++i) {
      result[moment_names_[m] + "/" + params()[i].name] = views[i];
    }
  }
  return result;
}

void FlatOptimizer::load_state(const std::map<std::string, at::Tensor>& state,
                               int64_t steps_taken) {
  if (steps_taken < 0) {
    fail<CheckpointError>("state of optimizer {}: found {} steps taken, expected 0 or more", name_,
                          steps_taken);
  }
  copy_by_name(state, this->state(), "state of optimizer " + name_);
  steps_taken_ = steps_taken;
}

}  // namespace fovea::optim
