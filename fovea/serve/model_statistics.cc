#include "fovea/serve/model_statistics.h"

#include <algorithm>

namespace fovea::serve {

void DurationStatistic::add(std::chrono::nanoseconds duration) {
  ++count;
  nanoseconds += static_cast<uint64_t>(std::max<int64_t>(duration.count(), 0));
}

void LatencyHistogram::add(double seconds) {
  const auto place = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts[static_cast<size_t>(place - kBounds.begin())];
  sum_seconds += seconds;
}

bool ModelStatistics::begin_pending(int64_t most) {
  const std::lock_guard lock(mutex_);
  if (most > 0 && all_.pending >= static_cast<uint64_t>(most)) return false;
  ++all_.pending;
  return true;
}

void ModelStatistics::end_pending() {
  const std::lock_guard lock(mutex_);
  --all_.pending;
}

void ModelStatistics::add_failure(std::chrono::nanoseconds whole) {
  const std::lock_guard lock(mutex_);
  all_.fail.add(whole);
}

void ModelStatistics::add_success(const RequestTimes& times, int64_t num_inputs) {
  using std::chrono::milliseconds, std::chrono::system_clock;
  const auto now = system_clock::now().time_since_epoch();
  const std::lock_guard lock(mutex_);
  all_.last_inference =
      static_cast<uint64_t>(std::chrono::duration_cast<milliseconds>(now).count());
  all_.inference_count += static_cast<uint64_t>(num_inputs);
  all_.success.add(times.whole);
  all_.queue.add(times.queue);
  all_.compute_input.add(times.compute_input);
  all_.compute_infer.add(times.compute_infer);
  all_.compute_output.add(times.compute_output);
  all_.latency.add(std::chrono::duration<double>(times.whole).count());
}

void ModelStatistics::add_batch(int64_t size, const RequestTimes& times) {
  const std::lock_guard lock(mutex_);
  ++all_.execution_count;
  auto& batch = all_.batches[size];
  batch.compute_input.add(times.compute_input);
  batch.compute_infer.add(times.compute_infer);
  batch.compute_output.add(times.compute_output);
}

StatisticsSnapshot ModelStatistics::snapshot() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

}  // namespace fovea::serve
