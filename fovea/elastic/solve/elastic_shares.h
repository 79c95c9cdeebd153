// Shares of a simulated elastic run, which finds by itself who is how fast.
#pragma once

#include <optional>
#include <vector>

#include "fovea/elastic/solve/trace.h"
#include "fovea/elastic/solve/working_sets.h"

namespace fovea::elastic {

// As Note [Shares by speed] of elastic/control has it: equal ones until all that work have been
// measured; then those by speed, where they gain enough, once they have for shares_after steps and
// waiting has lost what the change pauses.
class ElasticShares {
 public:
  // Both outlive it.
  ElasticShares(const TraceHead& head, const WorkingSets& sets) : head_(head), sets_(sets) {}

  // Of all of these: as far as it is known how fast they are.
  WorkingSet of(const std::vector<bool>& present) const {
    return are_measured_ ? fitting(present) : sets_.equal(present, 0);
  }
  // Somebody has joined, of whom nothing is known.
  void forget() { are_measured_ = false; }
  void know() { are_measured_ = true; }
  // Steps of these after which shares by speed may be taken; nothing: it is known how fast they
  // are.
  std::optional<double> steps_until_known(const std::vector<bool>& present) const;

 private:
  WorkingSet fitting(const std::vector<bool>& present) const;

  const TraceHead& head_;
  const WorkingSets& sets_;
  bool are_measured_ = false;
};

}  // namespace fovea::elastic
