#include "fovea/models/diffusion_vit_partitioning.h"

#include "fovea/models/block_partitioning.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/vit_partitioning.h"

namespace fovea::models {
namespace {

using parallel::Partitioning;

void add_decoder(Partitioning& partitioning, const DiffusionVitConfig& config) {
  const auto dim = config.encoder.vit.embed_dim;
  const bool has_adaln = config.has_adaln();
  add_units(partitioning, {"decoder_pred"});
  if (has_adaln) {
    add_row_of_whole(partitioning, "decoder_modulation.proj", dim);
    add_units(partitioning, {"decoder_modulation"});
  }
  if (config.linear_decoder) {
    add_row_of_whole(partitioning, "decoder_pred", dim);
    return;
  }
  const auto decoder = decoder_vit(config);
  add_row_of_whole(partitioning, "decoder_embed", dim);
  add_units(partitioning, {"decoder_embed"});
  if (config.encoder.vit.pos_embed == "size_and_center") {
    add_whole(partitioning, {"decoder_adaptive_pos_embed.*"});
    add_units(partitioning, {"decoder_adaptive_pos_embed"});
  } else {
    add_whole(partitioning, {"decoder_pos_embed"});
  }
  if (has_adaln) {
    add_conditioned_blocks(partitioning, "decoder_blocks", decoder.depth,
                           block_options(decoder, 0, 0), dim);
  } else {
    add_blocks(partitioning, "decoder_blocks", decoder.depth, block_options(decoder, 0, 0));
    add_whole(partitioning, {"decoder_norm.*"});
    add_units(partitioning, {"decoder_norm"});
  }
  add_row_of_whole(partitioning, "decoder_pred", config.decoder_embed_dim, "decoder_embed_dim");
}

}  // namespace

Partitioning partitioning_of(const DiffusionVitConfig& config) {
  Partitioning partitioning;
  auto vit = config.encoder.vit;
  if (config.has_adaln()) {
    add_conditioned_blocks(partitioning, "blocks", vit.depth, block_options(vit, 0, 0),
                           vit.embed_dim);
    vit.depth = 0;
    vit.final_norm = false;
  }
  add_vit(partitioning, vit, "encoder.");
  partitioning.rules.push_back({.pattern = "time_embed.fc1.*",
                                .split = parallel::Split::kColumn,
                                .groups = vit.embed_dim,
                                .groups_name = "embed_dim"});
  partitioning.rules.push_back({.pattern = "time_embed.fc2.*",
                                .split = parallel::Split::kRow,
                                .groups = vit.embed_dim,
                                .groups_name = "embed_dim"});
  add_units(partitioning, {"time_embed"});
  if (config.num_classes > 0) add_whole(partitioning, {"class_embed"});
  add_decoder(partitioning, config);
  return partitioning;
}

}  // namespace fovea::models
