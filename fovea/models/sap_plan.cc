#include "fovea/models/sap_plan.h"

#include "fovea/models/block_plan.h"
#include "fovea/models/vit_plan.h"

namespace fovea::models {

// The decoder is one small product of weights, made before any token is there.
parallel::ParallelPlan parallel_plan(const SapConfig& config) {
  parallel::ParallelPlan plan;
  add_vit(plan, config.encoder.vit, "encoder.");
  add_whole(plan, {"up", "head.*"});
  plan.units.push_back({.path = "head", .also = {"up"}});
  return plan;
}

}  // namespace fovea::models
