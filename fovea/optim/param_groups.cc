#include "fovea/optim/param_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"

namespace fovea::optim {
namespace {

bool has_weight_decay(const std::string& name, const at::Tensor& param,
                      const std::vector<std::string>& no_weight_decay) {
  if (param.dim() <= 1 || name.ends_with(".bias")) return false;
  return std::none_of(
      no_weight_decay.begin(), no_weight_decay.end(),
      [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

}  // namespace

std::vector<ParamSpec> param_groups(const NamedParams& params, const ParamGroupOptions& options) {
  const bool by_layer = options.layer_decay != 1;
  FOVEA_CHECK(!by_layer || options.layer_id,
              "layer_decay={} for a model that does not number its layers; expected 1",
              options.layer_decay);
  int64_t last_layer = 0;
  for (const auto& [name, param] : params) {
    if (by_layer) last_layer = std::max(last_layer, options.layer_id(name));
  }
  std::vector<ParamSpec> specs;
  for (const auto& [name, param] : params) {
    if (!param.requires_grad()) continue;
    ParamSpec spec{.name = name, .param = param};
    if (options.decay_all || has_weight_decay(name, param, options.no_weight_decay)) {
      spec.weight_decay = options.weight_decay;
    }
    if (by_layer) {
      const auto below_last = static_cast<double>(last_layer - options.layer_id(name));
      spec.lr_scale =
          std::max(options.layer_decay_min_scale, std::pow(options.layer_decay, below_last));
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

ParamGroupOptions param_group_options(const OptimConfig& config) {
  return config.visit_value([](const auto& chosen) {
    ParamGroupOptions options;
    options.weight_decay = chosen.weight_decay;
    options.decay_all = chosen.decay_all;
    options.layer_decay = chosen.layer_decay;
    options.layer_decay_min_scale = chosen.layer_decay_min_scale;
    return options;
  });
}

}  // namespace fovea::optim
