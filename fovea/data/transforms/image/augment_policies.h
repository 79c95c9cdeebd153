// The lists of operations behind timm's policies (timm 1.0.31, auto_augment.py).
#pragma once

#include <string_view>
#include <vector>

#include "fovea/data/transforms/image/auto_augment.h"

namespace fovea::data {

struct WeightedOp {
  std::string_view name;
  double weight;
};

// The choices of RandAugment; `transforms`: "" (all), "weights", "3a" or "3aw". Weights are 0 where
// all choices are equal. Throws ConfigError: another name.
std::vector<WeightedOp> rand_augment_choices(std::string_view transforms, bool is_increasing);

// "original", "originalr", "v0", "v0r" or "3a"; empty: no such policy.
std::vector<std::vector<AugmentOp>> auto_augment_policy(std::string_view name);

std::vector<std::string_view> aug_mix_choices();

}  // namespace fovea::data
