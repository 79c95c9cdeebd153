#include "fovea/models/t2t_vit_plan.h"

#include "fovea/models/block_plan.h"
#include "fovea/models/t2t_vit.h"

namespace fovea::models {

// The attention of the tokeniser has one head.
parallel::ParallelPlan parallel_plan(const T2tVitConfig& config) {
  parallel::ParallelPlan plan;
  add_whole(plan, {"cls_token", "pos_embed", "tokens_to_token.*", "norm.*"});
  add_blocks(plan, "blocks", config.depth, block_options(config, 0));
  add_units(plan, {"tokens_to_token", "norm"});
  if (config.num_classes == 0) return plan;
  add_row_of_whole(plan, "head", config.embed_dim);
  add_units(plan, {"head"});
  return plan;
}

}  // namespace fovea::models
