#include "fovea/models/mae_partitioning.h"

#include "fovea/models/block_partitioning.h"
#include "fovea/models/vit.h"
#include "fovea/models/vit_partitioning.h"

namespace fovea::models {

parallel::Partitioning partitioning_of(const MaeConfig& config) {
  parallel::Partitioning partitioning;
  add_vit(partitioning, config.encoder.vit, "encoder.");
  add_whole(partitioning, {"mask_token"});
  add_units(partitioning, {"decoder_pred"});
  if (config.linear_decoder) {
    add_row_of_whole(partitioning, "decoder_pred", config.encoder.vit.embed_dim);
    return partitioning;
  }
  const auto decoder = config.decoder_vit();
  const bool has_table = config.decoder_pos_embed != "size_and_center";
  add_whole(partitioning,
            {has_table ? "decoder_pos_embed" : "decoder_adaptive_pos_embed.*", "decoder_norm.*"});
  if (!has_table) add_units(partitioning, {"decoder_adaptive_pos_embed"});
  add_units(partitioning, {"decoder_norm", "decoder_embed"});
  add_row_of_whole(partitioning, "decoder_embed", config.encoder.vit.embed_dim);
  add_blocks(partitioning, "decoder_blocks", decoder.depth, block_options(decoder, 0, 0));
  add_row_of_whole(partitioning, "decoder_pred", config.decoder_embed_dim, "decoder_embed_dim");
  return partitioning;
}

}  // namespace fovea::models
