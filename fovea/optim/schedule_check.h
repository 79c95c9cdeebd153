// Whether a schedule goes with the length of a run.
#pragma once

#include <cstdint>

#include "fovea/optim/schedules.h"

namespace fovea::optim {

// Steps from where the schedule's own time begins to its end.
template <class Config>
int64_t decay_steps(const Config& config, int64_t run_steps) {
  const int64_t total = config.total_steps.value_or(run_steps);
  return config.total_includes_warmup ? total - config.warmup_steps : total;
}

// Whether the learning rate follows from the length of the run: a decay without one of its own.
bool hangs_on_run_steps(const ScheduleConfig& config);

// Reports a warm-up that a run of so many steps would not get to the end of, and a decay that the
// warm-up leaves no steps for. Keys are below `schedule`: "warmup_steps".
void check_run_steps(const ScheduleConfig& config, int64_t run_steps, ConfigIssues& issues);

}  // namespace fovea::optim
