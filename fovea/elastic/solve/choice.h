// Whether other devices are worth a change: for the simulation and for the scheduler.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/elastic/solve/working_sets.h"

namespace fovea::elastic {

inline constexpr double kSecondsOfHour = 3600, kMillisecondsOfHour = 3.6e6;

// A size of batches, from a position in the run's samples on.
struct BatchPoint {
  double samples = 0;
  int64_t global_batch = 0;
};

// What batches a run will have, from those that it had: on a straight line through the logarithms
// of its last sizes, by samples; the last size where there are fewer than two, and at most four
// times, at least a quarter of it.
int64_t predicted_batch(const std::vector<BatchPoint>& so_far, double samples);

// Note [Ours]
// At each event the best of the devices that are there are looked for (solver.h), for the batch as
// it is and as it is predicted to be halfway to the next event. Where one of those that work has
// gone the best ones work at once. Else a change is made where it gains: with h hours until the
// next event and a pause of p, where (h + p) objective' < h objective. The objective is that of a
// sample: ms times the price of the devices to the power of cost_weight, the mean over now, then
// and halfway.
struct Horizon {
  double hours = 0;    // until the next event
  double pause_s = 0;  // of a change
  double samples = 0;  // that the run is at
  std::vector<BatchPoint> batches{};
};

struct Choice {
  WorkingSet set{};  // that is to work; empty: nothing can
  bool changes = false;
  double objective_now = 0, objective_then = 0;  // of what works, and of the best
};

// working: devices that work, and are there but for where has_lost says so; ms is theirs as they
// work. Empty: none do. sets: of the batch as it is.
Choice choose_ours(WorkingSets& sets, const std::vector<bool>& present, const WorkingSet& working,
                   bool has_lost, const Horizon& horizon);

}  // namespace fovea::elastic
