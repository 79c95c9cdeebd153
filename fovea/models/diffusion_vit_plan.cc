#include "fovea/models/diffusion_vit_plan.h"

#include "fovea/models/block_plan.h"
#include "fovea/models/diffusion_vit.h"
#include "fovea/models/vit_plan.h"

namespace fovea::models {
namespace {

using parallel::ParallelPlan;

void add_decoder(ParallelPlan& plan, const DiffusionVitConfig& config) {
  const auto dim = config.encoder.vit.embed_dim;
  const bool has_adaln = config.has_adaln();
  add_units(plan, {"decoder_pred"});
  if (has_adaln) {
    add_row_of_whole(plan, "decoder_modulation.proj", dim);
    add_units(plan, {"decoder_modulation"});
  }
  if (config.linear_decoder) {
    add_row_of_whole(plan, "decoder_pred", dim);
    return;
  }
  const auto decoder = decoder_vit(config);
  add_row_of_whole(plan, "decoder_embed", dim);
  add_units(plan, {"decoder_embed"});
  if (config.encoder.vit.pos_embed == "size_and_center") {
    add_whole(plan, {"decoder_adaptive_pos_embed.*"});
    add_units(plan, {"decoder_adaptive_pos_embed"});
  } else {
    add_whole(plan, {"decoder_pos_embed"});
  }
  if (has_adaln) {
    add_conditioned_blocks(plan, "decoder_blocks", decoder.depth, block_options(decoder, 0, 0),
                           dim);
  } else {
    add_blocks(plan, "decoder_blocks", decoder.depth, block_options(decoder, 0, 0));
    add_whole(plan, {"decoder_norm.*"});
    add_units(plan, {"decoder_norm"});
  }
  add_row_of_whole(plan, "decoder_pred", config.decoder_embed_dim, "decoder_embed_dim");
}

}  // namespace

ParallelPlan parallel_plan(const DiffusionVitConfig& config) {
  ParallelPlan plan;
  auto vit = config.encoder.vit;
  if (config.has_adaln()) {
    add_conditioned_blocks(plan, "blocks", vit.depth, block_options(vit, 0, 0), vit.embed_dim);
    vit.depth = 0;
    vit.final_norm = false;
  }
  add_vit(plan, vit, "encoder.");
  plan.rules.push_back({.pattern = "time_embed.fc1.*",
                        .split = parallel::Split::kColumn,
                        .groups = vit.embed_dim,
                        .groups_name = "embed_dim",
                        .drop = "drop"});
  plan.rules.push_back({.pattern = "time_embed.fc2.*",
                        .split = parallel::Split::kRow,
                        .groups = vit.embed_dim,
                        .groups_name = "embed_dim"});
  add_units(plan, {"time_embed"});
  if (config.num_classes > 0) add_whole(plan, {"class_embed"});
  add_decoder(plan, config);
  return plan;
}

}  // namespace fovea::models
