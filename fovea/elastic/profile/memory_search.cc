#include "fovea/elastic/profile/memory_search.h"

#include <algorithm>
#include <set>

namespace fovea::elastic {
namespace {

constexpr int kMostTrials = 8;  // at the edge
constexpr double kNear = 0.9;

std::vector<int64_t> small_batches(int64_t most) {
  const std::set<int64_t> batches = {1, std::max<int64_t>(1, most / 16),
                                     std::max<int64_t>(1, most / 4)};
  return {batches.begin(), batches.end()};
}

// Largest in [1, most] that holds(); 0: none. What holds a batch holds smaller ones.
template <class Holds>
int64_t largest_of(int64_t most, const Holds& holds) {
  int64_t low = 0, high = most;
  while (low < high) {
    const auto middle = low + (high - low + 1) / 2;
    holds(middle) ? low = middle : high = middle - 1;
  }
  return low;
}

// From the rehearsal's bytes to those of the trials.
Line bytes_over_analytic(const MemorySearch& search, const std::vector<MemoryTrial>& trials) {
  std::vector<double> analytic, measured;
  for (const auto& trial : trials) {
    if (!trial.fits) continue;
    analytic.push_back(search.analytic(trial.batch));
    measured.push_back(static_cast<double>(trial.peak_bytes));
  }
  // The system counts small steps in coarse pieces: less than the rehearsal has, no batch takes.
  auto line = fit_line(analytic, measured);
  if (line.slope < 1) line = {.base = measured.front() - analytic.front(), .slope = 1};
  return line;
}

double predicted_bytes(const MemorySearch& search, const Line& bytes, int64_t batch) {
  return bytes.at(search.analytic(batch)) + search.bytes_of_sample * static_cast<double>(batch);
}

bool holds_at_once(const MemorySearch& search, const LargestBatch& found, int64_t batch,
                   int64_t concurrent) {
  if (concurrent > found.local_batch / batch) return false;
  if (concurrent == 1) return true;  // it was tried
  const double gradients = search.bytes_of_gradients * static_cast<double>(concurrent);
  return predicted_bytes(search, found.bytes, concurrent * batch) + gradients <= search.limit_bytes;
}

}  // namespace

LargestBatch find_largest_batch(const MemorySearch& search, const TryBatches& try_batches) {
  LargestBatch found;
  int64_t fits = 0, too_large = search.most + 1;
  const auto take = [&](const std::vector<int64_t>& batches) {
    for (auto trial : try_batches(batches)) {
      // Where a run has batches ready beside the step, trials have none.
      const double loaded = search.bytes_of_sample * static_cast<double>(trial.batch);
      const double whole = static_cast<double>(trial.peak_bytes) + loaded;
      trial.fits = trial.fits && whole <= search.limit_bytes;
      found.trials.push_back(trial);
      if (trial.fits) fits = std::max(fits, trial.batch);
      if (!trial.fits) too_large = std::min(too_large, trial.batch);
    }
  };
  take(small_batches(search.most));
  if (fits == 0) return found;
  found.bytes = bytes_over_analytic(search, found.trials);
  auto next = largest_of(search.most, [&](int64_t batch) {
    return predicted_bytes(search, found.bytes, batch) <= search.limit_bytes;
  });
  for (int trial = 0; trial < kMostTrials && fits + 1 < too_large; ++trial) {
    const auto batch = std::clamp(next, fits + 1, too_large - 1);
    take({batch});
    const bool is_as_predicted = trial == 0 && fits == batch && batch == next;
    const bool is_near = static_cast<double>(fits) >= kNear * static_cast<double>(too_large - 1);
    if (is_as_predicted || is_near) break;
    next = fits + (too_large - fits) / 2;  // the line does not hold
  }
  found.local_batch = fits;
  found.bytes = bytes_over_analytic(search, found.trials);
  return found;
}

int64_t passes_held(const MemorySearch& search, const LargestBatch& found, int64_t batch,
                    int64_t most) {
  return largest_of(
      most, [&](int64_t concurrent) { return holds_at_once(search, found, batch, concurrent); });
}

int64_t largest_at_once(const MemorySearch& search, const LargestBatch& found, int64_t concurrent) {
  return largest_of(found.local_batch,
                    [&](int64_t batch) { return holds_at_once(search, found, batch, concurrent); });
}

}  // namespace fovea::elastic
