#include "fovea/elastic/profile/batch_search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "fovea/core/error.h"
#include "fovea/core/printable.h"

namespace fovea::elastic {
namespace {

constexpr int64_t kLeastSteps = 2, kMostSteps = 30;  // of a round
constexpr double kRise = 1.03;  // a doubled batch is faster: so much more samples a second
constexpr double kBend = 0.05;  // a time is off the line between its neighbours
constexpr size_t kMostBends = 6;

using Samples = std::map<int64_t, std::vector<PassTimes>>;  // by batch

class Meter {
 public:
  Meter(const BatchSearch& search, const MeasurePasses& measure, int64_t concurrent,
        int64_t largest)
      : search_(search), measure_(measure), concurrent_(concurrent), largest_(largest) {}

  // What one worker's passes have shown to be too large is so for several of them.
  void stay_below(int64_t samples) { largest_ = std::min(largest_, (samples - 1) / concurrent_); }
  int64_t largest() const { return largest_; }
  int64_t too_large() const { return too_large_; }

  // Another round of a batch. False: memory does not hold it.
  bool take(int64_t batch) {
    if (batch >= too_large_) return false;
    auto& samples = samples_[batch];
    int64_t steps = kLeastSteps;
    if (!samples.empty()) {
      const double ms = median_of(samples).total_ms();
      steps = std::clamp(static_cast<int64_t>(1000 * search_.seconds / std::max(ms, 1e-3)),
                         kLeastSteps, kMostSteps);
    }
    const int64_t warmup = samples.empty() ? 2 : 1;
    const auto found = measure_({.local_batch = batch, .concurrent = concurrent_}, warmup, steps);
    if (found.empty()) {
      too_large_ = batch;
      samples_.erase(samples_.lower_bound(batch), samples_.end());
    } else {
      samples.insert(samples.end(), found.begin(), found.end());
    }
    if (search_.pause) search_.pause();
    return !found.empty();
  }
  void take_all() {
    for (const auto batch : batches()) take(batch);
  }

  std::vector<int64_t> batches() const {
    std::vector<int64_t> all;
    for (const auto& [batch, samples] : samples_) all.push_back(batch);
    return all;
  }
  double pass_ms(int64_t batch) const {
    const auto times = median_of(samples_.at(batch));
    return times.total_ms() - times.update_ms;
  }
  double samples_per_ms(int64_t batch) const {
    return static_cast<double>(batch) / std::max(pass_ms(batch), 1e-9);
  }

  std::vector<ComputationPoint> points() const {
    std::vector<ComputationPoint> points;
    for (const auto& [batch, samples] : samples_) {
      const auto times = median_of(samples);
      points.push_back({.local_batch = batch,
                        .concurrent = concurrent_,
                        .data_ms = times.data_ms,
                        .forward_ms = times.forward_ms,
                        .backward_ms = times.backward_ms,
                        .update_ms = times.update_ms});
    }
    return points;
  }

 private:
  const BatchSearch& search_;
  const MeasurePasses& measure_;
  int64_t concurrent_, largest_;
  int64_t too_large_ = kMaxLocalBatch + 1;
  Samples samples_;
};

// Batches on both sides of the point that is furthest off the line between its neighbours; none
// where all lie near enough.
std::vector<int64_t> about_largest_bend(const Meter& meter) {
  const auto batches = meter.batches();
  double worst = kBend;
  std::vector<int64_t> found;
  for (size_t i = 1; i + 1 < batches.size(); ++i) {
    const auto low = batches[i - 1], middle = batches[i], high = batches[i + 1];
    const double share = static_cast<double>(middle - low) / static_cast<double>(high - low);
    const double line = meter.pass_ms(low) + share * (meter.pass_ms(high) - meter.pass_ms(low));
    const double off = std::abs(meter.pass_ms(middle) - line) / meter.pass_ms(middle);
    if (off <= worst) continue;
    std::vector<int64_t> between;
    if (middle - low > 1) between.push_back(low + (middle - low) / 2);
    if (high - middle > 1) between.push_back(middle + (high - middle) / 2);
    if (between.empty()) continue;
    worst = off;
    found = between;
  }
  return found;
}

void search_dynamically(const BatchSearch& search, Meter& meter) {
  if (meter.largest() < 1 || !meter.take(1)) return;
  for (int64_t batch = 1; batch < meter.largest();) {
    const auto next = std::min(2 * batch, meter.largest());
    if (!meter.take(next)) break;
    const bool rises = meter.samples_per_ms(next) > kRise * meter.samples_per_ms(batch);
    batch = next;
    if (!rises) break;
  }
  for (int64_t round = 1; round < search.rounds; ++round) meter.take_all();
  for (size_t bend = 0; bend < kMostBends; ++bend) {
    const auto more = about_largest_bend(meter);
    if (more.empty()) break;
    for (int64_t round = 0; round < search.rounds; ++round) {
      for (const auto batch : more) meter.take(batch);
    }
  }
}

void search_statically(const BatchSearch& search, std::vector<Meter>& meters) {
  for (auto& meter : meters) {
    meter.stay_below(meters.front().too_large());
    if (meter.largest() < 1) continue;
    for (const auto batch : static_batches(meter.largest())) meter.take(batch);
  }
  for (int64_t round = 1; round < search.rounds; ++round) {
    for (auto& meter : meters) meter.take_all();
  }
}

}  // namespace

SearchKind search_of(const std::string& word) {
  if (word == "static") return SearchKind::kStatic;
  if (word == "dynamic") return SearchKind::kDynamic;
  fail<ConfigError>("--search: found '{}'; expected static or dynamic", printable_start(word));
}

std::vector<int64_t> static_batches(int64_t largest) {
  std::vector<int64_t> batches;
  for (int64_t batch = 1; batch < largest; batch *= 2) batches.push_back(batch);
  batches.push_back(largest);
  return batches;
}

std::vector<ComputationPoint> measure_batches(const BatchSearch& search,
                                              const MeasurePasses& measure) {
  std::vector<Meter> meters;
  meters.emplace_back(search, measure, 1, search.largest);
  for (const auto& [concurrent, largest] : search.largest_at_once) {
    meters.emplace_back(search, measure, concurrent, largest);
  }
  if (search.kind == SearchKind::kDynamic) {
    for (auto& meter : meters) {
      meter.stay_below(meters.front().too_large());
      search_dynamically(search, meter);
    }
  } else {
    search_statically(search, meters);
  }
  std::vector<ComputationPoint> points;
  for (const auto& meter : meters) {
    const auto found = meter.points();
    points.insert(points.end(), found.begin(), found.end());
  }
  return points;
}

}  // namespace fovea::elastic
