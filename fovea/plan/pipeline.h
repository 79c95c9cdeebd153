// From which number of ranks on pipeline parallel, which Fovea does not have, would pay.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/plan/mesh_plan.h"

namespace fovea::plan {

// Note [Pipeline]
// A pipeline of p stages takes the place of p of the ranks among which data is shared out: each has
// 1/p of the blocks and p times the samples, cut into m micro-batches. Work is the same but for the
// bubble, in which the first micro-batch has not come yet, or the last one is gone: (p - 1) / m of
// it. In return parameters are gathered and gradients summed of 1/p of the model, among as many
// fewer ranks: 1/p of that time. So
//   step' = (work + tp, cp) (1 + (p - 1) / m) + dp / p + 2 (p - 1) (tokens / bandwidth + latency)
// where work is products and memory, and tp, cp, dp are the seconds that the step waits for them.
// m is at most the samples there are, and 8 p: more of them, and products get small.
struct PipelinePoint {
  int64_t num_ranks = 0;
  int64_t stages = 0;         // the best p
  int64_t micro_batches = 0;  // m
  double bubble = 0;          // (p - 1) / m
  double step = 0;            // seconds without
  double exposed = 0;         // of them, waiting for data parallel
  double step_with = 0;       // seconds with
  bool pays() const { return step_with < step; }
};

// At the plan's number of ranks, twice, four times ... as many, with more copies of the same mesh
// and the same global batch; ends with the first one that pays, or where no sample is left for a
// rank.
std::vector<PipelinePoint> pipeline_points(const train::TrainConfig& config, const MeshPlan& plan,
                                           const MachineProfile& machine);

}  // namespace fovea::plan
