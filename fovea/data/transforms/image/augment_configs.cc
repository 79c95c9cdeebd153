#include "fovea/data/transforms/image/augment_configs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/transforms/config_checks.h"
#include "fovea/data/transforms/image/auto_augment.h"

namespace fovea::data {
namespace {

void check_fill(const std::vector<int64_t>& fill, ConfigIssues& issues) {
  const bool is_byte = std::all_of(fill.begin(), fill.end(),
                                   [](int64_t value) { return value >= 0 && value <= 255; });
  if ((fill.size() != 1 && fill.size() != 3) || !is_byte) {
    issues.add("fill",
               fmt::format("[{}]; expected one number or three, 0 to 255", fmt::join(fill, ", ")));
  }
}

// One distance from `center`, or a range inside [low, high].
void check_jitter(const std::string& key, const std::vector<double>& range, double low, double high,
                  ConfigIssues& issues) {
  const bool is_distance = range.size() == 1 && range[0] >= 0 && range[0] <= high;
  const bool is_range =
      range.size() == 2 && range[0] >= low && range[0] <= range[1] && range[1] <= high;
  if (!is_distance && !is_range) {
    issues.add(key,
               fmt::format("[{}]; expected one number from 0 on, or [least, largest] in {} to {}",
                           fmt::join(range, ", "), low, high));
  }
}

}  // namespace

void ResizeKeepRatioConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_interval("random_scale_range", random_scale_range, issues);
  check_interval("random_aspect_range", random_aspect_range, issues);
}

void CenterCropOrPadConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_fill(fill, issues);
}

void RandomCropOrPadConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_fill(fill, issues);
}

void RkrcConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_interval("scale", scale, issues);
  check_interval("ratio", ratio, issues);
}

void RkrrConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_interval("scale", scale, issues);
  check_interval("ratio", ratio, issues);
}

void EvalCropConfig::validate(ConfigIssues& issues) const {
  check_size(size, issues);
  check_fill(fill, issues);
}

void ColorJitterConfig::validate(ConfigIssues& issues) const {
  constexpr double kLargest = 1000;
  check_jitter("brightness", brightness, 0, kLargest, issues);
  check_jitter("contrast", contrast, 0, kLargest, issues);
  check_jitter("saturation", saturation, 0, kLargest, issues);
  check_jitter("hue", hue, -0.5, 0.5, issues);
}

void GaussianBlurConfig::validate(ConfigIssues& issues) const {
  check_interval("sigma", sigma.size() == 1 ? std::vector<double>{sigma[0], sigma[0]} : sigma,
                 issues);
  if (kernel_size % 2 == 0) {
    issues.add("kernel_size", fmt::format("{}; expected an odd number", kernel_size));
  }
}

void AutoAugmentConfig::validate(ConfigIssues& issues) const {
  check_fill(fill, issues);
  try {
    parse_augment_policy(policy);
  } catch (const ConfigError& error) {
    issues.add("policy", error.what());
  }
}

void RandAugmentConfig::validate(ConfigIssues& issues) const {
  check_fill(fill, issues);
  if (magnitude >= num_magnitude_bins) {
    issues.add(
        "magnitude", {"num_magnitude_bins"},
        fmt::format("{}; expected less than num_magnitude_bins={}", magnitude, num_magnitude_bins));
  }
}

void RandomErasingConfig::validate(ConfigIssues& issues) const {
  check_interval("scale", scale, issues);
  check_interval("ratio", ratio, issues);
  if (max_count < min_count) {
    issues.add("max_count", {"min_count"},
               fmt::format("{}; expected at least min_count={}", max_count, min_count));
  }
}

void MixupConfig::validate(ConfigIssues& issues) const {
  if (cutmix_minmax.empty()) return;
  const bool is_range = cutmix_minmax.size() == 2 && cutmix_minmax[0] > 0 &&
                        cutmix_minmax[0] < cutmix_minmax[1] && cutmix_minmax[1] <= 1;
  if (!is_range) {
    issues.add("cutmix_minmax", fmt::format("[{}]; expected [least, largest], in 0 to 1",
                                            fmt::join(cutmix_minmax, ", ")));
  }
}

}  // namespace fovea::data
