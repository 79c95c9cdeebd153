// How long a member's own part of its last steps took it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "fovea/elastic/control/records.h"

namespace fovea::elastic {

// Means over the last steps of a generation, but for the first ones, in which what they need is
// made: a processor that others have too is slow now and then, and not in each step alike.
class StepTimes {
 public:
  void start() { *this = {}; }
  void add(int64_t rows, double seconds, double comm_seconds) {
    if (skipped_ < kFirst) {
      ++skipped_;
      return;
    }
    steps_.push_back({rows, seconds, comm_seconds});
    if (steps_.size() > kMost) steps_.pop_front();
  }
  // Into a worker's record.
  void tell(WorkerRecord& record) const {
    Step sum;
    for (const auto& step : steps_) {
      sum.rows += step.rows;
      sum.seconds += step.seconds;
      sum.comm_seconds += step.comm_seconds;
    }
    const auto count = static_cast<int64_t>(steps_.size());
    record.timed_steps = sum.rows > 0 ? count : 0;
    record.row_ms =
        sum.rows > 0 ? 1000 * (sum.seconds - sum.comm_seconds) / static_cast<double>(sum.rows) : 0;
    record.comm_ms = count > 0 ? 1000 * sum.comm_seconds / static_cast<double>(count) : 0;
  }

 private:
  static constexpr int64_t kFirst = 2;
  static constexpr size_t kMost = 32;
  struct Step {
    int64_t rows = 0;
    double seconds = 0, comm_seconds = 0;
  };
  std::deque<Step> steps_;
  int64_t skipped_ = 0;
};

}  // namespace fovea::elastic
