// The middle one of some measurements.
#pragma once

#include <algorithm>
#include <vector>

namespace fovea {

// Of an even number the upper one of the two in the middle. values: one at least.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace fovea
