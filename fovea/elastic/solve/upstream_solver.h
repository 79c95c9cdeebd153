// The choice that JABAS makes, from the same profiles.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/elastic/solve/solve_config.h"
#include "fovea/elastic/solve/solver.h"

namespace fovea::elastic {

// Note [JABAS's choices]
// All workers have one local batch, of those that were profiled on each host that takes part. A
// device runs n of them at a time and a passes before the last one. Devices of a host come in units
// of some number, each with one n and a; each unit that is chosen works, and the global batch is
// exactly local batch x workers. Times are predicted as there: throughput of n workers by a
// logarithm through the measured ones (from three on), update and copies as measured with the most
// workers, the network between hosts as soon as there are two. Within that the result is the best
// one, as its own solver's is on most inputs; it tries sets of units one by one, this does not.

struct UpstreamSolution {
  bool is_found = false;
  int64_t local_batch = 0;  // of every worker
  Solution solution{};
};

// Of the hosts of `cluster`. Time is the only objective there.
UpstreamSolution solve_upstream(const Cluster& cluster, const ProfileSet& profiles, WeightSync sync,
                                int64_t unit, int64_t global_batch);

}  // namespace fovea::elastic
