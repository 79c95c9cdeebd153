#include "fovea/data/transforms/volume/volume_configs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace fovea::data {
namespace {

template <class T>
std::string listed(const std::vector<T>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

template <class T>
bool has_one_or_three(const std::vector<T>& values) {
  return values.size() == 1 || values.size() == 3;
}

void check_size(const char* key, const std::vector<int64_t>& size, ConfigIssues& issues) {
  if (has_one_or_three(size)) return;
  issues.add(key, listed(size) + "; expected one number or [depth, height, width]");
}

void check_at_least(const char* key, const std::vector<int64_t>& values, int64_t least,
                    ConfigIssues& issues) {
  const bool is_high =
      std::all_of(values.begin(), values.end(), [&](int64_t value) { return value >= least; });
  if (has_one_or_three(values) && is_high) return;
  issues.add(key, fmt::format("{}; expected one number or one for each axis, none below {}",
                              listed(values), least));
}

void check_interval(const char* key, const std::vector<double>& interval, bool one_serves,
                    ConfigIssues& issues) {
  if (one_serves && interval.size() == 1) return;
  if (interval.size() == 2 && interval[0] <= interval[1]) return;
  issues.add(
      key, listed(interval) + "; expected [least, largest]" + (one_serves ? " or one number" : ""));
}

void check_sigma(const char* key, const std::vector<double>& sigma, ConfigIssues& issues) {
  if (sigma.size() == 2 && sigma[0] >= 0 && sigma[0] <= sigma[1]) return;
  issues.add(key, listed(sigma) + "; expected [least, largest], none below 0");
}

void check_axes(const char* key, const std::vector<int64_t>& axes, ConfigIssues& issues) {
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  const bool is_repeated = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (!is_repeated && (sorted.empty() || (sorted.front() >= 0 && sorted.back() <= 2))) return;
  issues.add(key, listed(axes) + "; expected different numbers from 0 (depth) to 2 (width)");
}

// `count` numbers, or least and largest of each.
void check_ranges(const char* key, const std::vector<double>& ranges, size_t count,
                  ConfigIssues& issues) {
  bool is_ordered = true;
  if (ranges.size() == 2 * count) {
    for (size_t i = 0; i < ranges.size(); i += 2) is_ordered &= ranges[i] <= ranges[i + 1];
  }
  const bool has_count = ranges.empty() || ranges.size() == count || ranges.size() == 2 * count;
  if (has_count && is_ordered) return;
  issues.add(key, fmt::format("{}; expected no number, {}, or {} as least and largest of each",
                              listed(ranges), count, 2 * count));
}

}  // namespace

void SpatialPadConfig::validate(ConfigIssues& issues) const {
  check_size("spatial_size", spatial_size, issues);
}

void CenterSpatialCropConfig::validate(ConfigIssues& issues) const {
  check_size("roi_size", roi_size, issues);
}

void RandSpatialCropConfig::validate(ConfigIssues& issues) const {
  check_size("roi_size", roi_size, issues);
  if (!max_roi_size.empty()) check_size("max_roi_size", max_roi_size, issues);
}

void RandCropByPosNegLabelConfig::validate(ConfigIssues& issues) const {
  check_size("spatial_size", spatial_size, issues);
  if (!(pos + neg > 0)) {
    issues.add("pos", {"neg"},
               fmt::format("{}, and neg {}; expected one of the two above 0", pos, neg));
  }
}

void CropForegroundConfig::validate(ConfigIssues& issues) const {
  check_at_least("margin", margin, 0, issues);
  check_at_least("k_divisible", k_divisible, 1, issues);
  const bool is_negative = std::any_of(channel_indices.begin(), channel_indices.end(),
                                       [](int64_t channel) { return channel < 0; });
  if (is_negative) issues.add("channel_indices", listed(channel_indices) + "; expected 0 or more");
}

void RandFlipConfig::validate(ConfigIssues& issues) const {
  check_axes("spatial_axis", spatial_axis, issues);
}

void RandRotate90Config::validate(ConfigIssues& issues) const {
  check_axes("spatial_axes", spatial_axes, issues);
  if (spatial_axes.size() != 2) {
    issues.add("spatial_axes", listed(spatial_axes) + "; expected two axes");
  }
}

void RandAffineConfig::validate(ConfigIssues& issues) const {
  check_ranges("rotate_range", rotate_range, 3, issues);
  check_ranges("shear_range", shear_range, 6, issues);
  check_ranges("translate_range", translate_range, 3, issues);
  check_ranges("scale_range", scale_range, 3, issues);
  check_size("spatial_size", spatial_size, issues);
  for (size_t i = 0; i < scale_range.size(); ++i) {
    const bool is_least = scale_range.size() == 3 || i % 2 == 0;
    const double least = scale_range.size() == 3 ? -scale_range[i] : scale_range[i];
    if (!is_least || least > -1) continue;
    issues.add("scale_range", listed(scale_range) + "; expected scales (1 + s) above 0");
    break;
  }
}

void SpatialResizeConfig::validate(ConfigIssues& issues) const {
  check_size("spatial_size", spatial_size, issues);
}

void SpacingConfig::validate(ConfigIssues& issues) const {
  if (has_one_or_three(pixdim)) return;
  issues.add("pixdim", listed(pixdim) + "; expected one number or one for each axis");
}

void RandShiftIntensityConfig::validate(ConfigIssues& issues) const {
  check_interval("offsets", offsets, true, issues);
}

void RandScaleIntensityConfig::validate(ConfigIssues& issues) const {
  check_interval("factors", factors, true, issues);
}

void RandGaussianSmoothConfig::validate(ConfigIssues& issues) const {
  check_sigma("sigma_x", sigma_x, issues);
  check_sigma("sigma_y", sigma_y, issues);
  check_sigma("sigma_z", sigma_z, issues);
}

void ScaleIntensityRangeConfig::validate(ConfigIssues& issues) const {
  if (a_min == a_max) {
    issues.add("a_max", {"a_min"},
               fmt::format("{}, as a_min; expected two different numbers", a_max));
  }
  if (clip && b_min > b_max) {
    issues.add("b_max", {"b_min", "clip"},
               fmt::format("{}; clip needs one that is not below b_min={}", b_max, b_min));
  }
}

void NormalizeIntensityConfig::validate(ConfigIssues& issues) const {
  const bool has_zero =
      std::any_of(divisor.begin(), divisor.end(), [](double value) { return value == 0; });
  if (has_zero) issues.add("divisor", listed(divisor) + "; expected numbers other than 0");
}

}  // namespace fovea::data

namespace fovea {

template struct detail::OneOfValue<decltype(data::VolumeTransformConfig::value)>;

}  // namespace fovea
