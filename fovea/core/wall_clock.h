// The time of day, for lines that are set against each other.
#pragma once

#include <chrono>

namespace fovea {

inline double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace fovea
