// JABAS's prediction of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/elastic/solve/profile.h"
#include "fovea/elastic/solve/step_model.h"

namespace fovea::elastic {

class UpstreamModel {
 public:
  // Nothing where this batch was not measured with one worker, or does not fit.
  static std::optional<UpstreamModel> of(const DeviceProfile& profile, int64_t local_batch,
                                         WeightSync sync, double last_share);

  int64_t most_concurrent() const { return most_concurrent_; }
  StepParts parts(int64_t concurrent, int64_t accumulation, const NetworkTime& network) const;

 private:
  double relative_throughput(int64_t concurrent) const;
  double data_ms(int64_t concurrent) const;

  int64_t local_batch_ = 0, most_concurrent_ = 0;
  double one_worker_ = 0;  // samples a second
  double forward_share_ = 0, update_ = 0, copy_ = 0, sync_ = 0, share_ = 1;
  bool is_fitted_ = false;
  Line logarithm_;                                // relative throughput over ln n
  std::vector<double> relative_;                  // measured
  std::vector<std::pair<int64_t, double>> data_;  // by concurrent workers
};

}  // namespace fovea::elastic
