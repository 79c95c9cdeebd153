#include "fovea/data/transforms/config_checks.h"

#include <fmt/ranges.h>

#include <algorithm>

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

void check_fill(const std::vector<int64_t>& fill, ConfigIssues& issues) {
  const bool is_byte = std::all_of(fill.begin(), fill.end(),
                                   [](int64_t value) { return value >= 0 && value <= 255; });
  if ((fill.size() != 1 && fill.size() != 3) || !is_byte) {
    issues.add("fill",
               fmt::format("[{}]; expected one number or three, 0 to 255", fmt::join(fill, ", ")));
  }
}

}  // namespace fovea::data
