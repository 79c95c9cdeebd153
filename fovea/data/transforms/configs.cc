#include "fovea/data/transforms/configs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/data/transforms/config_checks.h"

namespace fovea::data {

void check_size(const std::vector<int64_t>& size, ConfigIssues& issues) {
  const bool is_positive =
      std::all_of(size.begin(), size.end(), [](int64_t side) { return side > 0; });
  if (size.empty() || size.size() > 2 || !is_positive) {
    issues.add("size", fmt::format("[{}]; expected one number or [height, width], each above 0",
                                   fmt::join(size, ", ")));
  }
}

void check_interval(const std::string& key, const std::vector<double>& interval,
                    ConfigIssues& issues) {
  if (interval.size() != 2 || !(interval[0] > 0) || !(interval[0] <= interval[1])) {
    issues.add(key,
               fmt::format("[{}]; expected [least, largest], above 0", fmt::join(interval, ", ")));
  }
}

namespace {

void check_padding(const std::vector<int64_t>& padding, ConfigIssues& issues) {
  const bool is_positive =
      std::all_of(padding.begin(), padding.end(), [](int64_t side) { return side >= 0; });
  if ((padding.size() != 1 && padding.size() != 2 && padding.size() != 4) || !is_positive) {
    issues.add(
        "padding",
        fmt::format("[{}]; expected one number, [left and right, top and bottom] or [left, top, "
                    "right, bottom], none below 0",
                    fmt::join(padding, ", ")));
  }
}

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

void RandomResizedCropConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_interval("scale", scale, issues);
  check_interval("ratio", ratio, issues);
}

void ResizeConfig::validate(ConfigIssues& issues) const { check_size(size, issues); }

void CenterCropConfig::validate(ConfigIssues& issues) const { check_size(size, issues); }

void PadConfig::validate(ConfigIssues& issues) const { check_padding(padding, issues); }

void RandomCropConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_padding(padding, issues);
}

void ResizeToPatchesConfig::validate(ConfigIssues& issues) const {
  if (!min_patches || *min_patches <= max_patches) return;
  issues.add("min_patches", {"max_patches"},
             fmt::format("{}; expected at most max_patches={}", *min_patches, max_patches));
}

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

namespace fovea {

template struct detail::OneOfValue<decltype(data::TransformConfig::value)>;

}  // namespace fovea
