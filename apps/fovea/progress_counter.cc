#include "apps/fovea/progress_counter.h"

#include <fmt/format.h>

#include <utility>

namespace fovea::app {

ProgressCounter::ProgressCounter(std::string verb, bool is_silent)
    : verb_(std::move(verb)),
      line_(is_silent ? ProgressLine::Mode::kSilent : ProgressLine::Mode::kAuto) {}

std::function<void(int64_t, int64_t)> ProgressCounter::callback() {
  return [this](int64_t done, int64_t total) {
    line_.update(fmt::format("{} {}/{}", verb_, done, total));
  };
}

}  // namespace fovea::app
