#include "fovea/models/mae_plan.h"

#include "fovea/models/block_plan.h"
#include "fovea/models/vit.h"
#include "fovea/models/vit_plan.h"

namespace fovea::models {

parallel::ParallelPlan parallel_plan(const MaeConfig& config) {
  parallel::ParallelPlan plan;
  add_vit(plan, config.encoder.vit, "encoder.");
  add_whole(plan, {"mask_token"});
  add_units(plan, {"decoder_pred"});
  if (config.linear_decoder) {
    add_row_of_whole(plan, "decoder_pred", config.encoder.vit.embed_dim);
    return plan;
  }
  const auto decoder = config.decoder_vit();
  const bool has_table = config.decoder_pos_embed != "size_and_center";
  add_whole(plan,
            {has_table ? "decoder_pos_embed" : "decoder_adaptive_pos_embed.*", "decoder_norm.*"});
  if (!has_table) add_units(plan, {"decoder_adaptive_pos_embed"});
  add_units(plan, {"decoder_norm", "decoder_embed"});
  add_row_of_whole(plan, "decoder_embed", config.encoder.vit.embed_dim);
  add_blocks(plan, "decoder_blocks", decoder.depth, block_options(decoder, 0, 0));
  add_row_of_whole(plan, "decoder_pred", config.decoder_embed_dim, "decoder_embed_dim");
  return plan;
}

}  // namespace fovea::models
