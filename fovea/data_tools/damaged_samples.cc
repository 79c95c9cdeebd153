#include "fovea/data_tools/damaged_samples.h"

#include <algorithm>
#include <mutex>

#include "fovea/core/error.h"
#include "fovea/core/parallel_for.h"

namespace fovea::data {

CheckReport check_dataset(const Dataset& dataset, int64_t threads,
                          const std::function<void(int64_t, int64_t)>& progress) {
  constexpr int64_t kBlock = 64;
  CheckReport report{dataset.size(), {}};
  std::mutex mutex;
  int64_t done = 0;
  parallel_for((report.samples + kBlock - 1) / kBlock, threads, [&](int64_t block) {
    std::vector<DamagedSample> found;
    Sample sample;
    const int64_t last = std::min(report.samples, (block + 1) * kBlock);
    for (int64_t i = block * kBlock; i < last; ++i) {
      try {
        read_decoded(dataset, i, sample);
      } catch (const DataError& error) {
        found.push_back({i, error.what()});
      }
    }
    const std::lock_guard lock(mutex);
    report.damaged.insert(report.damaged.end(), found.begin(), found.end());
    done += last - block * kBlock;
    if (progress) progress(done, report.samples);
  });
  std::sort(report.damaged.begin(), report.damaged.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  return report;
}

}  // namespace fovea::data
