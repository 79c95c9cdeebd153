// What the names of metrics say.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace fovea::train {

// Metrics that are better when smaller; of every other one more is better.
constexpr std::array<std::string_view, 3> kSmallerIsBetter = {"loss", "hd95", "fid"};

inline bool is_smaller_better(std::string_view metric) {
  return std::find(kSmallerIsBetter.begin(), kSmallerIsBetter.end(), metric) !=
         kSmallerIsBetter.end();
}

inline bool improves(std::string_view metric, double value, double best) {
  return is_smaller_better(metric) ? value < best : value > best;
}

}  // namespace fovea::train
