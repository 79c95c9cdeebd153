#include "fovea/parallel/partitioning.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::parallel {

std::vector<size_t> match_rules(const Partitioning& partitioning,
                                std::span<const std::string> names) {
  std::vector<size_t> rule_of;
  std::vector<bool> is_used(partitioning.rules.size());
  std::vector<std::string> faults;
  for (const auto& name : names) {
    const auto rule = std::find_if(
        partitioning.rules.begin(), partitioning.rules.end(),
        [&](const auto& one) { return fnmatch(one.pattern.c_str(), name.c_str(), 0) == 0; });
    if (rule == partitioning.rules.end()) {
      faults.push_back(fmt::format("parameter {} has no rule", name));
      continue;
    }
    rule_of.push_back(static_cast<size_t>(rule - partitioning.rules.begin()));
    is_used[rule_of.back()] = true;
  }
  for (size_t i = 0; i < is_used.size(); ++i) {
    if (!is_used[i]) {
      faults.push_back(
          fmt::format("the rule '{}' holds for no parameter", partitioning.rules[i].pattern));
    }
  }
  FOVEA_CHECK(
      faults.empty(),
      "the model's parallel partitioning does not fit its parameters: {}; expected a rule for each "
      "parameter and a parameter for each rule",
      fmt::join(faults, "; "));
  return rule_of;
}

}  // namespace fovea::parallel
