#include "fovea/train/state/optimizer_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "fovea/core/error.h"
#include "fovea/optim/param_groups.h"

namespace fovea::train {
namespace {

using weights::OptimizerGroup;
using weights::TorchList;
using weights::TorchObject;

TorchObject tuple_of(std::vector<TorchObject> items) {
  return TorchList{.items = std::move(items), .is_tuple = true};
}

TorchObject betas_of(const std::vector<double>& betas) {
  return tuple_of({betas.at(0), betas.at(1)});
}

const TorchObject kNone;

OptimizerSettings adamw_settings(const std::vector<double>& betas, double eps) {
  return {{"betas", betas_of(betas)}, {"eps", eps},       {"amsgrad", false},
          {"maximize", false},        {"foreach", kNone}, {"capturable", false},
          {"differentiable", false},  {"fused", kNone},   {"decoupled_weight_decay", true}};
}

OptimizerSettings settings_of(const optim::AdamWConfig& config) {
  return adamw_settings(config.betas, config.eps);
}

OptimizerSettings settings_of(const optim::SgdConfig& config) {
  return {{"momentum", config.momentum},
          {"dampening", config.dampening},
          {"nesterov", config.nesterov},
          {"maximize", false},
          {"foreach", kNone},
          {"differentiable", false},
          {"fused", kNone}};
}

OptimizerSettings settings_of(const optim::LambConfig& config) {
  const bool has_clip = config.max_grad_norm > 0;
  return {{"bias_correction", config.bias_correction},
          {"betas", betas_of(config.betas)},
          {"eps", config.eps},
          {"grad_averaging", config.grad_averaging},
          {"max_grad_norm", has_clip ? TorchObject(config.max_grad_norm) : kNone},
          {"trust_clip", config.trust_clip},
          {"always_adapt", config.always_adapt},
          {"caution", false},
          {"decoupled_decay", config.decoupled_decay},
          {"corrected_weight_decay", false},
          {"max_lr_snapshot", config.lr},  // the peak, of timm's since 1.0.31
          {"foreach", kNone}};
}

OptimizerSettings settings_of(const optim::AdafactorConfig& config) {
  const auto eps1 = config.eps1 ? TorchObject(*config.eps1) : kNone;
  return {{"beta2_decay", config.beta2_decay},
          {"eps", tuple_of({eps1, config.eps2})},
          {"d", config.clip_threshold},
          {"foreach", kNone},
          {"maximize", false}};
}

// Of the matrices, as torch.optim.Muon has them.
OptimizerSettings settings_of(const optim::MuonConfig& config) {
  return {{"momentum", config.momentum},
          {"nesterov", config.nesterov},
          {"ns_coefficients", tuple_of({3.4445, -4.7750, 2.0315})},
          {"eps", 1e-7},
          {"ns_steps", config.ns_steps},
          {"adjust_lr_fn", config.adjust_lr}};
}

// "betas: (0.9, 0.95) there, (0.9, 0.999) here"; nothing where both are the same number, or alike.
std::string difference_of(const std::string& key, const TorchObject& there,
                          const TorchObject& here) {
  const auto a = there.number(), b = here.number();
  const bool are_close = a && b && std::abs(*a - *b) <= 1e-9 * std::max(std::abs(*a), std::abs(*b));
  if (are_close || there.text() == here.text()) return "";
  return fmt::format("{} {} there, {} here", key, there.text(), here.text());
}

// Of settings that lists hold, number by number: "betas[1] 0.95 there, 0.98 here".
void compare_setting(const std::string& key, const TorchObject& there, const TorchObject& here,
                     std::vector<std::string>& differences) {
  const auto *a = there.list(), *b = here.list();
  if (a != nullptr && b != nullptr && a->items.size() == b->items.size()) {
    for (size_t i = 0; i < a->items.size(); ++i)
      compare_setting(fmt::format("{}[{}]", key, i), a->items[i], b->items[i], differences);
    return;
  }
  const auto difference = difference_of(key, there, here);
  if (!difference.empty()) differences.push_back(difference);
}

// How torch's loops run, which changes no result; or what weight_decay and lr say.
bool is_no_difference(const std::string& key) {
  return key == "foreach" || key == "fused" || key == "capturable" || key == "differentiable" ||
         key == "decoupled_weight_decay" || key == "max_lr_snapshot";
}

// What tells the groups apart: not of matrices, for torch's Muon comes before its AdamW; the layer;
// with weight decay.
using GroupKey = std::tuple<bool, int64_t, bool>;

}  // namespace

OptimizerSettings torch_settings(const optim::OptimConfig& config, bool is_matrix) {
  const auto* muon = config.get_if<optim::MuonConfig>();
  if (muon != nullptr && !is_matrix) return adamw_settings(muon->betas, muon->eps);
  return config.visit_value([](const auto& chosen) { return settings_of(chosen); });
}

std::vector<std::string> differences_of_settings(const weights::NamedMoments& moments,
                                                 const optim::OptimConfig& config) {
  std::vector<std::string> differences;
  for (const bool is_matrix : {false, true}) {  // Muon's have settings of their own
    if (is_matrix && moments.optimizer != "muon") break;
    const auto here = torch_settings(config, is_matrix);
    const auto there = std::find_if(
        moments.groups.begin(), moments.groups.end(), [&](const OptimizerGroup& group) {
          return group.settings.contains("ns_steps") == here.contains("ns_steps");
        });
    if (there == moments.groups.end()) continue;
    for (const auto& [key, setting] : here) {
      const auto found = there->settings.find(key);
      if (found != there->settings.end() && !is_no_difference(key))
        compare_setting(key, found->second, setting, differences);
    }
  }
  const auto decays = moments.weight_decays();
  const double decay = config.visit_value([](const auto& chosen) { return chosen.weight_decay; });
  if (!decays.empty() && decays.back() != decay)
    differences.push_back(fmt::format("weight_decay {} there, {} here", decays.back(), decay));
  return differences;
}

std::vector<OptimizerGroup> torch_groups(const optim::OptimConfig& config,
                                         const models::Model& model, double lr,
                                         const std::vector<std::string>& matrices) {
  const bool by_layer = config.visit_value([](const auto& c) { return c.layer_decay != 1; });
  const auto* muon = config.get_if<optim::MuonConfig>();
  const std::set<std::string> of_muon(matrices.begin(), matrices.end());
  std::vector<std::pair<GroupKey, OptimizerGroup>> groups;
  for (const auto& spec : optim::param_groups(model, config)) {
    const bool is_matrix = of_muon.contains(spec.name);
    const GroupKey key{!is_matrix, by_layer ? model.layer_id(spec.name) : 0,
                       spec.weight_decay != 0};
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == key; });
    if (found == groups.end()) {
      OptimizerGroup group{.settings = torch_settings(config, is_matrix)};
      const double own = muon != nullptr && !is_matrix ? muon->adamw_lr_scale : 1.0;
      group.settings["lr"] = lr * spec.lr_scale * own;
      group.settings["initial_lr"] = optim::base_lr(config) * spec.lr_scale * own;
      group.settings["weight_decay"] = spec.weight_decay;
      if (by_layer) group.settings["lr_scale"] = spec.lr_scale;
      found = groups.insert(groups.end(), {key, std::move(group)});
    }
    found->second.params.push_back(spec.name);
  }
  std::stable_sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
    if (by_layer) return std::get<0>(a.first) < std::get<0>(b.first);  // as they occur
    return a.first < b.first;
  });
  std::vector<OptimizerGroup> list;
  for (auto& group : groups) list.push_back(std::move(group.second));
  return list;
}

}  // namespace fovea::train
