#include "fovea/data/transforms/volume/scale_intensity_range.h"

#include <fmt/format.h>

#include "fovea/data/transforms/volume/volume_intensity.h"

namespace fovea::data {

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

void ScaleIntensityRangeConfig::apply(VolumeItem& item, RandomStream&,
                                      VolumeScratch& scratch) const {
  ValueWindow window;
  window.subtrahend = static_cast<float>(a_min);
  window.factor = static_cast<float>((b_max - b_min) / (a_max - a_min));
  window.offset = static_cast<float>(b_min);
  if (clip) {
    window.least = static_cast<float>(b_min);
    window.largest = static_cast<float>(b_max);
  }
  for_channels(item, scratch,
               [&](float* values, int64_t count, int64_t) { apply_window(values, count, window); });
}

}  // namespace fovea::data
