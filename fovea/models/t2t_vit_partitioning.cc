#include "fovea/models/t2t_vit_partitioning.h"

#include "fovea/models/block_partitioning.h"
#include "fovea/models/t2t_vit.h"

namespace fovea::models {

// The attention of the tokeniser has one head.
parallel::Partitioning partitioning_of(const T2tVitConfig& config) {
  parallel::Partitioning partitioning;
  add_whole(partitioning, {"cls_token", "pos_embed", "tokens_to_token.*", "norm.*"});
  add_blocks(partitioning, "blocks", config.depth, block_options(config, 0));
  add_units(partitioning, {"tokens_to_token", "norm"});
  if (config.num_classes == 0) return partitioning;
  add_row_of_whole(partitioning, "head", config.embed_dim);
  add_units(partitioning, {"head"});
  return partitioning;
}

}  // namespace fovea::models
