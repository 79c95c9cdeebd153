// Means and deviations by channel.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace fovea::models {

// `values` where there is one for each of the channels, or none; else their mean, once a channel.
inline std::vector<double> fit_to_channels(const std::vector<double>& values, int64_t channels) {
  const auto count = static_cast<size_t>(channels);
  if (values.size() == count || values.empty()) return values;
  const auto sum = std::accumulate(values.begin(), values.end(), 0.0);
  return std::vector<double>(count, sum / static_cast<double>(values.size()));
}

}  // namespace fovea::models
