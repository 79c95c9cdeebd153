#include "fovea/data/transforms/volume/volume_config_checks.h"

#include <algorithm>

namespace fovea::data {

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

void check_axes(const char* key, const std::vector<int64_t>& axes, ConfigIssues& issues) {
  std::vector<int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  const bool is_repeated = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  if (!is_repeated && (sorted.empty() || (sorted.front() >= 0 && sorted.back() <= 2))) return;
  issues.add(key, listed(axes) + "; expected different numbers from 0 (depth) to 2 (width)");
}

}  // namespace fovea::data
