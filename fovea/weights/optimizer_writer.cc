#include "fovea/weights/optimizer_writer.h"

#include <ATen/ops/scalar_tensor.h>

#include <map>
#include <utility>

namespace fovea::weights {
namespace {

using Steps = OptimizerKind::Steps;

// "momentum_buffer" -> tensor ..., of each parameter.
std::map<std::string, TorchDict> states_by_name(const NamedMoments& moments,
                                                const OptimizerKind& kind) {
  std::map<std::string, TorchDict> states;
  const auto matrices = moments.slots.find("momentum_buffer");
  for (const auto& [slot, tensors] : moments.slots) {
    for (const auto& [name, tensor] : tensors) {
      auto& state = states[name];
      const bool is_counted = kind.steps == Steps::kOfParameters &&
                              (matrices == moments.slots.end() || slot != "momentum_buffer");
      if (state.keys.empty() && is_counted) {
        const auto steps = at::scalar_tensor(static_cast<double>(moments.steps), at::kFloat);
        state.add("step", steps);  // torch's own dtype
      }
      state.add(slot, tensor);
    }
  }
  return states;
}

std::vector<OptimizerGroup> groups_of(const NamedMoments& moments, const OptimizerKind& kind) {
  auto groups = moments.groups;
  if (groups.empty()) groups.push_back({.params = moments.names()});
  if (kind.steps == Steps::kOfGroups) {
    for (auto& group : groups) group.settings["step"] = moments.steps;
  }
  return groups;
}

TorchList texts(const std::vector<std::string>& names) {
  TorchList list;
  for (const auto& name : names) list.items.emplace_back(name);
  return list;
}

}  // namespace

TorchDict optimizer_object(const NamedMoments& moments, OptimizerKeys keys) {
  const auto& kind = optimizer_kind(moments.optimizer);
  const bool by_index = keys == OptimizerKeys::kByIndex && moments.optimizer != "muon";
  auto states = states_by_name(moments, kind);
  TorchDict state;
  TorchList groups;
  int64_t next = 0;
  for (const auto& group : groups_of(moments, kind)) {
    TorchList params;
    for (const auto& name : group.params) {
      params.items.emplace_back(by_index ? TorchObject(next) : TorchObject(name));
      const auto found = states.find(name);
      if (found != states.end())
        state.add(by_index ? TorchKey(next) : TorchKey(name), std::move(found->second));
      ++next;
    }
    TorchDict dict;
    for (const auto& [key, value] : group.settings) dict.add(key, value);
    if (by_index) dict.add("param_names", texts(group.params));
    dict.add("params", std::move(params));
    groups.items.emplace_back(std::move(dict));
  }
  TorchDict object;
  object.add("state", std::move(state));
  object.add("param_groups", std::move(groups));
  return object;
}

}  // namespace fovea::weights
