#include "fovea/models/unetr_partitioning.h"

#include "fovea/models/block_partitioning.h"
#include "fovea/models/vit_partitioning.h"

namespace fovea::models {

// The convolutions of the decoder are on every rank: they work on whole maps.
parallel::Partitioning partitioning_of(const UnetrConfig& config) {
  parallel::Partitioning partitioning;
  if (config.linear_decoder) {
    add_vit(partitioning, config.encoder.vit, "encoder.");
    add_row_of_whole(partitioning, "head", config.encoder.vit.embed_dim);
    add_units(partitioning, {"head"});
    return partitioning;
  }
  std::vector<int64_t> taps;
  if (config.skip_connection) {
    for (const auto block : config.skip_blocks()) taps.push_back(block);
    add_whole(partitioning, {"encoder[1234].*"});
    add_units(partitioning, {"encoder1", "encoder2", "encoder3", "encoder4"});
  }
  add_vit(partitioning, config.encoder.vit, "encoder.", taps);
  add_whole(partitioning, {"decoder[2345].*", "out.*"});
  for (const std::string block : {"decoder5", "decoder4", "decoder3", "decoder2"}) {
    add_units(partitioning, {config.skip_connection ? block : block + ".transp_conv"});
  }
  add_units(partitioning, {"out"});
  return partitioning;
}

}  // namespace fovea::models
