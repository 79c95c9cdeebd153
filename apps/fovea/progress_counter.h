// A progress line for loops that know how far they are.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "fovea/core/progress_line.h"

namespace fovea::app {

// "packing 640/5000"
class ProgressCounter {
 public:
  ProgressCounter(std::string verb, bool is_silent);
  std::function<void(int64_t, int64_t)> callback();
  void clear() { line_.clear(); }

 private:
  std::string verb_;
  ProgressLine line_;
};

}  // namespace fovea::app
