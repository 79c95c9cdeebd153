#include "fovea/weights/optimizer_state_check.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "fovea/weights/optimizer_refusal.h"
#include "fovea/weights/optimizer_source.h"

namespace fovea::weights {
namespace {

void check_groups(const OptimizerState& state, const std::string& path) {
  std::set<std::string> keys;
  for (const auto& group : state.groups) {
    for (const auto& key : group.params) {
      if (!keys.insert(key).second) refuse_state(path, "parameter {} is in two groups", shown(key));
    }
  }
  if (keys.empty() && state.is_by_index())
    refuse_state(
        path, "its parameters have numbers for names, and there are no param_groups to tell them");
  for (const auto& key : state.keys_with_state()) {
    if (!keys.empty() && !keys.contains(key)) {
      refuse_state(path, "its state has parameter {}, which none of its groups of {} in all has",
                   shown(key), keys.size());
    }
  }
}

// SGD without momentum keeps nothing.
bool may_keep_nothing(const OptimizerState& state) {
  return state.optimizer == "sgd" &&
         std::all_of(state.groups.begin(), state.groups.end(),
                     [](const auto& group) { return group.number("momentum") == 0.0; });
}

void check_values(const std::string& key, const std::string& slot, const at::Tensor& tensor,
                  const std::string& path) {
  if (!tensor.is_floating_point())
    refuse_state(path, "{}: moments that are not floating-point numbers", shown(key));
  if (is_second_moment(slot) && tensor.numel() > 0 && !(tensor.min().item<double>() >= 0))
    refuse_state(path, "{}: {} has values below 0 or that are none: no second moment", shown(key),
                 slot);
}

void check_sizes(const std::string& key, const std::vector<std::string>& slots,
                 const OptimizerState& state, const std::string& path) {
  const auto sizes = state.sizes_of(key);
  for (const auto& slot : slots) {
    auto expected = *sizes;
    const bool has_sides = expected.size() >= 2;
    if (is_factor(slot) && has_sides) expected[expected.size() - (slot == "row_var" ? 1 : 2)] = 1;
    const auto found = state.slots.at(slot).at(key).sizes();
    if ((!is_factor(slot) || has_sides) && found == at::IntArrayRef(expected)) continue;
    refuse_state(path, "{}: {} is [{}], but {} [{}]", shown(key), slots.front(),
                 fmt::join(state.slots.at(slots.front()).at(key).sizes(), ", "), slot,
                 fmt::join(found, ", "));
  }
}

void check_moments_of(const std::string& key, const OptimizerState& state,
                      const OptimizerKind& kind, const std::string& path) {
  std::vector<std::string> has;
  for (const auto& [slot, tensors] : state.slots) {
    const auto found = tensors.find(key);
    if (found == tensors.end()) continue;
    has.push_back(slot);
    check_values(key, slot, found->second, path);
  }
  const auto set = std::find_if(kind.slots.begin(), kind.slots.end(), [&](const auto& slots) {
    return std::find(slots.begin(), slots.end(), has.front()) != slots.end();
  });
  for (const auto slot : *set) {
    if (std::find(has.begin(), has.end(), slot) == has.end())
      refuse_state(path, "{} has {}, but no {}", shown(key), fmt::join(has, ", "), slot);
  }
  if (has.size() != set->size()) {
    refuse_state(path, "{} has {}; expected {}", shown(key), fmt::join(has, ", "),
                 kind.slots_text());
  }
  check_sizes(key, has, state, path);
}

void check_moments(const OptimizerState& state, const OptimizerKind& kind,
                   const std::string& path) {
  const auto keys = state.keys_with_state();
  if (keys.empty() && !may_keep_nothing(state)) {
    refuse_state(path,
                 "its optimizer, {}, keeps nothing for any parameter: it has not taken a step",
                 kind.title);
  }
  for (const auto& key : keys) check_moments_of(key, state, kind, path);
}

}  // namespace

void check_state(const OptimizerState& state, const OptimizerKind& kind, const std::string& path) {
  check_groups(state, path);
  check_moments(state, kind, path);
}

}  // namespace fovea::weights
