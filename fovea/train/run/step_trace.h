// Some steps of a run as a timeline, of all its ranks.
#pragma once

#include <cstdint>
#include <filesystem>

#include "fovea/parallel/world.h"

namespace fovea::train {

// Records `num_steps` steps after the first one of this start, which takes memory and starts
// threads. Then each rank writes trace.rank<r>.json to the run folder, and the first one joins them
// in trace.json.
class StepTrace {
 public:
  // num_steps 0: none. `world` outlives it.
  StepTrace(std::filesystem::path folder, int64_t num_steps, parallel::World& world);

  // Around every step, on all ranks; the latter is collective where the last one is over.
  void before_step();
  void after_step();
  // At the end of the run, which may come before. Collective.
  void finish();

 private:
  void write();

  std::filesystem::path folder_;
  int64_t num_steps_;
  parallel::World& world_;
  int64_t steps_seen_ = 0;
  bool is_recording_ = false;
};

}  // namespace fovea::train
