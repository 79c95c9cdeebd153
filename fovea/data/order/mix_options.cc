#include "fovea/data/order/mix_options.h"

#include "fovea/core/error.h"

namespace fovea::data {

MixMode mix_mode(const std::string& name) {
  if (name == "exact") return MixMode::kExact;
  if (name == "cycle_to_largest") return MixMode::kCycleToLargest;
  if (name == "weights") return MixMode::kWeights;
  if (name == "rank_groups") return MixMode::kRankGroups;
  fail<ConfigError>("mix={}; expected exact, cycle_to_largest, weights or rank_groups", name);
}

std::string MixOptions::name_of(size_t set) const {
  return set < set_names.size() ? set_names[set] : fmt::format("set {}", set);
}

}  // namespace fovea::data
