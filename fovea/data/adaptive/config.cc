#include "fovea/data/adaptive/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace fovea::data {

void AdaptivePatchingConfig::validate(ConfigIssues& issues) const {
  const auto is_known = [](int64_t size) {
    return size == 0 || size == 1 || size == 3 || size == 5;
  };
  if (smoothing.empty() || !std::all_of(smoothing.begin(), smoothing.end(), is_known)) {
    issues.add("smoothing", fmt::format("[{}]; expected one or more of 0, 1, 3 and 5",
                                        fmt::join(smoothing, ", ")));
  }
  const auto& limits = canny_thresholds;
  if (limits.size() != 2 || limits[0] < 0 || limits[0] >= limits[1] || limits[1] > 2048) {
    issues.add("canny_thresholds",
               fmt::format("[{}]; expected [first, second] with 0 <= first < second <= 2048",
                           fmt::join(limits, ", ")));
  }
  if (value_range.size() != 2 || !(value_range[0] < value_range[1])) {
    issues.add("value_range", fmt::format("[{}]; expected [black, white] with black < white",
                                          fmt::join(value_range, ", ")));
  }
  if (min_leaf > patch_size) {
    issues.add("min_leaf", {"patch_size"},
               fmt::format("{} is above patch_size={}; with leaves this large nothing is seen more "
                           "finely than by plain patches; give at most {}",
                           min_leaf, patch_size, patch_size));
  }
}

}  // namespace fovea::data
