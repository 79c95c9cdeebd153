#include "fovea/weights/kind_of_state.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/weights/optimizer_refusal.h"

namespace fovea::weights {
namespace {

// "AdamW (amsgrad), SGD (nesterov, dampening) ...": what tells the optimizers.
std::string known_signs() {
  std::vector<std::string> list;
  for (const auto& kind : optimizer_kinds())
    list.push_back(fmt::format("{} ({})", kind.title, fmt::join(kind.signs, ", ")));
  return fmt::format("{}", fmt::join(list, ", "));
}

const OptimizerKind* kind_with_signs_of(const OptimizerGroup& group) {
  for (const auto& kind : optimizer_kinds()) {
    const bool has_all = std::all_of(kind.signs.begin(), kind.signs.end(), [&](auto sign) {
      return group.settings.contains(std::string(sign));
    });
    if (has_all) return &kind;
  }
  return nullptr;
}

[[noreturn]] void refuse_kind(const OptimizerGroup& group, const std::string& path) {
  std::vector<std::string> keys;
  for (const auto& item : group.settings) keys.push_back(shown(item.first));
  refuse_state(
      path,
      "its param_groups have the keys {}, which are of no optimizer here; expected those of {}",
      fmt::join(keys, ", "), known_signs());
}

std::string_view kind_by_slots(const std::set<std::string>& there) {
  if (there.contains("row_var") || there.contains("variance")) return "adafactor";
  const bool has_momentum = there.contains("momentum_buffer");
  if (has_momentum) return there.contains("exp_avg") ? "muon" : "sgd";
  return "adamw";
}

// Other optimizers have states of the same names.
void check_adamw(const OptimizerGroup& group, const std::string& path) {
  if (!group.settings.contains("amsgrad")) return;
  if (group.number("amsgrad").value_or(0) != 0)
    refuse_state(path, "AdamW with amsgrad, which is not here");
  const bool is_coupled = group.number("decoupled_weight_decay") == 0.0;
  if (is_coupled && group.number("weight_decay").value_or(0) != 0)
    refuse_state(path, "Adam with weight decay in the gradient (L2), which is not AdamW's");
}

}  // namespace

const OptimizerKind& kind_of_state(const std::vector<OptimizerGroup>& groups,
                                   const std::set<std::string>& slots, const std::string& path) {
  std::set<std::string_view> names;
  for (const auto& group : groups) {
    if (!group.settings.contains("lr")) continue;
    const auto* kind = kind_with_signs_of(group);
    if (kind == nullptr) refuse_kind(group, path);
    names.insert(kind->name);
  }
  if (names == std::set<std::string_view>{"adamw", "muon"}) names = {"muon"};
  if (names.size() > 1)
    refuse_state(path, "its groups are of several optimizers: {}; expected one",
                 fmt::join(names, ", "));
  for (const auto& group : groups) check_adamw(group, path);
  return optimizer_kind(names.empty() ? kind_by_slots(slots) : *names.begin());
}

}  // namespace fovea::weights
