#include "fovea/models/unetr_plan.h"

#include "fovea/models/block_plan.h"
#include "fovea/models/vit_plan.h"

namespace fovea::models {

// The convolutions of the decoder are on every rank: they work on whole maps.
parallel::ParallelPlan parallel_plan(const UnetrConfig& config) {
  parallel::ParallelPlan plan;
  if (config.linear_decoder) {
    add_vit(plan, config.encoder.vit, "encoder.");
    add_row_of_whole(plan, "head", config.encoder.vit.embed_dim);
    add_units(plan, {"head"});
    return plan;
  }
  std::vector<int64_t> taps;
  if (config.skip_connection) {
    for (const auto block : config.skip_blocks()) taps.push_back(block);
    add_whole(plan, {"encoder[1234].*"});
    add_units(plan, {"encoder1", "encoder2", "encoder3", "encoder4"});
  }
  add_vit(plan, config.encoder.vit, "encoder.", taps);
  add_whole(plan, {"decoder[2345].*", "out.*"});
  for (const std::string block : {"decoder5", "decoder4", "decoder3", "decoder2"}) {
    add_units(plan, {config.skip_connection ? block : block + ".transp_conv"});
  }
  add_units(plan, {"out"});
  return plan;
}

}  // namespace fovea::models
