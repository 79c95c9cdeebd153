// What a recipe costs on a mesh, and which mesh is the best one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fovea/plan/machine_profile.h"
#include "fovea/plan/rehearsal.h"
#include "fovea/plan/step_time.h"
#include "fovea/train/recipe/config.h"

namespace fovea::plan {

// `config` with another parallel section, checked as a recipe with it is, and against the number of
// ranks. Throws ConfigError with every fault.
train::TrainConfig with_mesh(const train::TrainConfig& config,
                             const parallel::ParallelConfig& parallel, int64_t num_ranks);

// `config` as it would train there: device.fp8=auto is off on a machine that does not multiply FP8,
// and another one but off is refused, with ConfigError.
train::TrainConfig on_machine(train::TrainConfig config, const MachineProfile& machine);

struct MeshPlan {
  parallel::ParallelConfig parallel;
  parallel::MeshShape mesh;
  int64_t micro_batch_size = 0, num_micro_batches = 0, local_batch_size = 0;
  RankMemory memory;
  StepTime time;
  std::map<std::string, parallel::CollectiveCounts> counts;  // by axis, of a rank's step
  std::map<std::string, int64_t> group_sizes;                // by axis
  double flops = 0;                                          // of a rank's step
  bool fits = false;                                         // in the memory of a rank
};

// Of rank 0. config: with_mesh.
MeshPlan plan_mesh(const train::TrainConfig& config, int64_t num_ranks,
                   const MachineProfile& machine);

// Meshes of so many ranks that the model and the batch allow: tp and cp within a node, dp_shard
// over nothing, a node, or all; with tp also sequence parallel. Where one does not fit, blocks are
// recomputed as well. The fastest first, those that do not fit behind those that do. Throws
// ConfigError where no mesh is possible, with the faults of the plainest one.
std::vector<MeshPlan> search_meshes(const train::TrainConfig& config, int64_t num_ranks,
                                    const MachineProfile& machine);

}  // namespace fovea::plan
