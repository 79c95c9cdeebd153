// Which parameters are trained, with what weight decay and what share of the learning rate; timm's
// rules.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/optim/config.h"

namespace fovea::optim {

struct ParamGroupOptions {
  double weight_decay = 0;
  bool decay_all = false;
  double layer_decay = 1;
  double layer_decay_min_scale = 0;
  std::vector<std::string> no_weight_decay;             // names or patterns (`*.pos_embed`)
  std::function<int64_t(const std::string&)> layer_id;  // needed where layer_decay < 1
};

using NamedParams = std::vector<std::pair<std::string, at::Tensor>>;

// One ParamSpec for each parameter that requires a gradient, in the order given. No weight decay
// for parameters of fewer than two dims, `*.bias` and those in no_weight_decay, unless decay_all. A
// parameter of layer i of 0..n has lr_scale max(layer_decay_min_scale, layer_decay^(n - i)); n
// counts frozen layers too.
std::vector<ParamSpec> param_groups(const NamedParams& params, const ParamGroupOptions& options);

// The settings of `config` that concern groups, without what only a model knows.
ParamGroupOptions param_group_options(const OptimConfig& config);

// The same for a model as models/model.h describes it.
template <class Model>
std::vector<ParamSpec> param_groups(const Model& model, const OptimConfig& config) {
  auto options = param_group_options(config);
  options.no_weight_decay = model.no_weight_decay();
  options.layer_id = [&model](const std::string& name) { return model.layer_id(name); };
  NamedParams params;
  for (const auto& item : model.named_parameters()) params.emplace_back(item.key(), item.value());
  return param_groups(params, options);
}

}  // namespace fovea::optim
