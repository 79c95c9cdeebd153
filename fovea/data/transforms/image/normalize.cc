#include "fovea/data/transforms/image/normalize.h"

#include <algorithm>

namespace fovea::data {
namespace {

struct Statistics {
  const char* name;
  std::vector<double> mean;
  std::vector<double> std;
};

// Means and deviations in common use, by channel, on a scale of 0 to 1.
const std::vector<Statistics>& statistics() {
  static const std::vector<Statistics> table = {
      {"imagenet", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
      {"inception", {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
      {"clip", {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}},
      {"cifar10", {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}},
      {"cifar100", {0.5071, 0.4867, 0.4408}, {0.2675, 0.2565, 0.2761}},
      {"mnist", {0.1307}, {0.3081}},
      {"fashion_mnist", {0.2860}, {0.3530}},
  };
  return table;
}

}  // namespace

void NormalizeConfig::validate(ConfigIssues& issues) const {
  if (mean.empty()) issues.add("mean", "empty; expected one number, or one for each channel");
  const bool is_positive =
      std::all_of(std.begin(), std.end(), [](double value) { return value > 0; });
  if (std.empty() || !is_positive) {
    issues.add("std", fmt::format("[{}]; expected one number, or one for each channel, above 0",
                                  fmt::join(std, ", ")));
  }
}

bool NormalizeConfig::apply_preset(const std::string& name) {
  for (const auto& entry : statistics()) {
    if (name != entry.name) continue;
    mean = entry.mean;
    std = entry.std;
    return true;
  }
  return false;
}

std::vector<std::string> NormalizeConfig::preset_names() {
  std::vector<std::string> names;
  for (const auto& entry : statistics()) names.emplace_back(entry.name);
  return names;
}

}  // namespace fovea::data
