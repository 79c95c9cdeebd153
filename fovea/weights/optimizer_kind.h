// The optimizers of torch and timm that Fovea has too, by what they keep.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::weights {

struct OptimizerKind {
  enum class Steps { kOfParameters, kOfGroups, kNowhere };

  std::string_view name;   // in a recipe: "sgd"
  std::string_view title;  // "torch.optim.SGD"
  // Keys that all of its param_groups have, and those of no other one here.
  std::vector<std::string_view> signs;
  // What is kept for a parameter: one of these sets.
  std::vector<std::vector<std::string_view>> slots;
  Steps steps;  // where they are counted

  // "exp_avg, exp_avg_sq and step".
  std::string slots_text() const;
};

// That of a recipe's name. Throws Error for another one.
const OptimizerKind& optimizer_kind(std::string_view name);
const std::vector<OptimizerKind>& optimizer_kinds();

// Every name that an optimizer of torch or timm keeps something for a parameter under.
bool is_slot(std::string_view name);
// Of those: values that are never below zero.
bool is_second_moment(std::string_view slot);
// Of those: of another shape than the parameter.
bool is_factor(std::string_view slot);

}  // namespace fovea::weights
