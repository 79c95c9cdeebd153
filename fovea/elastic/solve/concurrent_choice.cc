#include "fovea/elastic/solve/concurrent_choice.h"

#include <algorithm>

#include "fovea/elastic/solve/step_model.h"

namespace fovea::elastic {

bool has_concurrent(const DeviceProfile& profile) {
  return std::any_of(profile.computation.begin(), profile.computation.end(),
                     [](const ComputationPoint& point) { return point.concurrent > 1; });
}

int64_t best_concurrent(const DeviceProfile& profile, const StepPasses& passes, double least_gain) {
  const auto times = pass_milliseconds(profile, passes.batch);
  const auto alone = times.find(1);
  if (alone == times.end()) return 1;
  const auto step_ms = [&](int64_t concurrent, double ms) {
    const auto groups = (passes.number + concurrent - 1) / concurrent;
    return static_cast<double>(groups) * ms;
  };
  int64_t best = 1;
  double least = (1 - least_gain) * step_ms(1, alone->second);
  for (const auto& [concurrent, ms] : times) {
    if (concurrent > std::min(passes.number, profile.max_concurrent(passes.batch))) continue;
    if (step_ms(concurrent, ms) >= least) continue;
    best = concurrent;
    least = step_ms(concurrent, ms);
  }
  return best;
}

}  // namespace fovea::elastic
