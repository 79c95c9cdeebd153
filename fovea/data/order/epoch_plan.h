// An epoch in batches of one size: how many there are of each set, and where each starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fovea/data/order/mix_options.h"

namespace fovea::data {

// Where the first range of sorted ends starts that ends after a value, and which one that is.
int64_t range_holding(const std::vector<int64_t>& ends, int64_t value);
int64_t range_start(const std::vector<int64_t>& ends, int64_t range);

class EpochPlan {
 public:
  // set_samples: [sets] samples handed out of each in an epoch of kExact. Throws ConfigError:
  // options that leave a set without a batch, or do not fit each other.
  EpochPlan(const MixOptions& mix, const std::vector<int64_t>& set_samples, int64_t batch_size,
            bool drop_last);

  int64_t batch_size() const { return batch_size_; }
  int64_t samples() const { return samples_; }
  int64_t batches() const { return batches_; }
  // Of these the first ones, in an order that is the epoch's, are full.
  int64_t full_batches() const { return full_ends_.empty() ? batches_ : full_ends_.back(); }
  // [sets]: full batches of sets 0 to s. Empty for kRankGroups.
  const std::vector<int64_t>& full_ends() const { return full_ends_; }
  // The sets that have a smaller batch behind the full ones.
  const std::vector<int64_t>& rests() const { return rests_; }
  int64_t batches_of(int64_t set) const;

  // Batches that start before `offset`, 0 to samples().
  int64_t batches_before(int64_t offset) const;
  // The same, where a part of a batch counts as that.
  double steps_before(double offset) const;
  // Samples before batch `batch`, 0 to batches().
  int64_t start_of(int64_t batch) const;

 private:
  void plan_exact(const MixOptions& mix, const std::vector<int64_t>& set_samples, bool drop_last);
  void plan_streams(const MixOptions& mix, bool drop_last);
  void plan_rank_groups(const MixOptions& mix);

  int64_t batch_size_;
  int64_t samples_ = 0;
  int64_t batches_ = 0;
  std::vector<int64_t> full_ends_;
  std::vector<int64_t> rests_;
  std::vector<int64_t> rest_sizes_;  // samples of their batches
};

}  // namespace fovea::data
