// A run on a cluster whose hosts come and go, without the run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fovea/elastic/solve/solve_config.h"
#include "fovea/elastic/solve/solver.h"
#include "fovea/elastic/solve/trace.h"
#include "fovea/elastic/solve/working_sets.h"

namespace fovea::elastic {

// Note [Policies]
// fixed: takes what is there at the start, in equal shares, and as many devices for good. When one
// of them goes, it goes on from its last checkpoint (that of the moment, where it had a word)
// as soon as so many devices are there again.
// upstream: JABAS's choice of devices at the start and at the end of each epoch, where another
// choice is a restart. When a device goes, it restarts from the end of the last epoch.
// ours: see Note [Ours].
// elastic: an elastic run without profiles: all that are there work, from each event on, in shares
// as the trace says; those by speed once all have been measured (see Note [Shares by speed] of
// elastic/control), for which it pauses as for any change. Loses no step.
// A batch that changes is followed at once and without a pause, as each of them can.
struct SimulateOptions {
  std::string policy = "ours";
  double cost_weight = 0;  // of ours; as in SolveOptions
  WeightSync sync = WeightSync::kOverlap;
};

// What holds from an hour on.
struct SimulatedPoint {
  double hour = 0;
  double images_per_second = 0;
  int64_t devices = 0;  // that work
  int64_t present = 0;
  double cost_per_hour = 0;
  double samples = 0;  // so far
  double cost = 0;     // so far
};

struct SimulatedRun {
  std::string policy;
  bool is_done = false;  // all samples within the trace
  double hours = 0;      // until it was done, or the trace's end
  double cost = 0;
  double samples = 0;
  int64_t changes = 0;      // of the devices that work, the start not counted
  double lost_samples = 0;  // computed twice
  double idle_hours = 0;    // pauses, and waiting for devices
  std::vector<SimulatedPoint> points{};
};

// Throws ConfigError for an unknown policy.
SimulatedRun simulate(const Trace& trace, const Cluster& cluster, const ProfileSet& profiles,
                      int64_t alloc_unit, const SimulateOptions& options);

}  // namespace fovea::elastic
