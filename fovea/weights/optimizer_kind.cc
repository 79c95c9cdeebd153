#include "fovea/weights/optimizer_kind.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::weights {

const std::vector<OptimizerKind>& optimizer_kinds() {
  using Steps = OptimizerKind::Steps;
  static const std::vector<OptimizerKind> kKinds = {
      {"adamw", "AdamW", {"amsgrad"}, {{"exp_avg", "exp_avg_sq"}}, Steps::kOfParameters},
      {"sgd", "SGD", {"nesterov", "dampening"}, {{"momentum_buffer"}}, Steps::kNowhere},
      {"lamb",
       "LAMB",
       {"grad_averaging", "max_grad_norm"},
       {{"exp_avg", "exp_avg_sq"}},
       Steps::kOfGroups},
      {"adafactor",
       "Adafactor",
       {"beta2_decay"},
       {{"row_var", "col_var"}, {"variance"}},
       Steps::kOfParameters},
      {"muon",
       "Muon with AdamW",
       {"ns_steps", "ns_coefficients"},
       {{"momentum_buffer"}, {"exp_avg", "exp_avg_sq"}},
       Steps::kOfParameters}};
  return kKinds;
}

const OptimizerKind& optimizer_kind(std::string_view name) {
  const auto& kinds = optimizer_kinds();
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const OptimizerKind& kind) { return kind.name == name; });
  FOVEA_CHECK(found != kinds.end(), "optimizer {} has no counterpart in torch", name);
  return *found;
}

std::string OptimizerKind::slots_text() const {
  std::vector<std::string> sets;
  for (const auto& set : slots) sets.push_back(fmt::format("{}", fmt::join(set, ", ")));
  return fmt::format("{}{}", fmt::join(sets, " or "),
                     steps == Steps::kOfParameters ? " and step" : "");
}

bool is_slot(std::string_view name) {
  // Those of the kinds above, and of others that are told by them.
  constexpr std::array<std::string_view, 14> kSlots = {
      "exp_avg", "exp_avg_sq", "step",       "max_exp_avg_sq", "momentum_buffer",
      "exp_inf", "mu_product", "square_avg", "exp_avg_sq_row", "exp_avg_sq_col",
      "sum",     "row_var",    "col_var",    "variance"};
  return std::find(kSlots.begin(), kSlots.end(), name) != kSlots.end();
}

bool is_second_moment(std::string_view slot) {
  return slot == "exp_avg_sq" || slot == "variance" || is_factor(slot);
}

bool is_factor(std::string_view slot) { return slot == "row_var" || slot == "col_var"; }

}  // namespace fovea::weights
