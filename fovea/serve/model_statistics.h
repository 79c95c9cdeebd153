// What a served model has done, in the words of Triton's statistics.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace fovea::serve {

struct DurationStatistic {
  uint64_t count = 0;
  uint64_t nanoseconds = 0;  // of all together

  void add(std::chrono::nanoseconds duration);
};

// Of the passes over batches of one size.
struct BatchStatistic {
  DurationStatistic compute_input, compute_infer, compute_output;
};

// Whole requests that were answered, by how long they took.
struct LatencyHistogram {
  static constexpr std::array<double, 14> kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,  0.5,    1,     2.5,  5,     10,   30};
  // counts[i]: requests of at most kBounds[i] seconds and more than the bound before; the last one:
  // longer ones.
  std::array<uint64_t, kBounds.size() + 1> counts = {};
  double sum_seconds = 0;

  void add(double seconds);
};

struct StatisticsSnapshot {
  uint64_t last_inference = 0;   // milliseconds since the epoch
  uint64_t inference_count = 0;  // inputs: of a request of 8 images 8
  uint64_t execution_count = 0;  // batches
  // Of requests; success: from arrival to answer.
  DurationStatistic success, fail, queue, compute_input, compute_infer, compute_output;
  std::map<int64_t, BatchStatistic> batches;  // by their size
  LatencyHistogram latency;                   // of successes
  uint64_t pending = 0;  // requests that were taken and whose pass has not begun
};

// What a request took, part by part.
struct RequestTimes {
  std::chrono::nanoseconds whole{}, queue{}, compute_input{}, compute_infer{}, compute_output{};
};

// Thread-safe.
class ModelStatistics {
 public:
  // False: as many as `most` are pending (0: no limit), and this one is not counted.
  bool begin_pending(int64_t most);
  void end_pending();
  void add_failure(std::chrono::nanoseconds whole);
  void add_success(const RequestTimes& times, int64_t num_inputs);
  // A pass over `size` inputs.
  void add_batch(int64_t size, const RequestTimes& times);
  StatisticsSnapshot snapshot() const;

 private:
  mutable std::mutex mutex_;
  StatisticsSnapshot all_;
};

}  // namespace fovea::serve
