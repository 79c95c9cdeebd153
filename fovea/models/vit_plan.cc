#include "fovea/models/vit_plan.h"

#include "fovea/models/block_plan.h"
#include "fovea/models/vit.h"

namespace fovea::models {
namespace {

using parallel::ParallelPlan;
using parallel::Split;

// q, kv and proj at a path: attention of one query to tokens.
void add_cross_attention(ParallelPlan& plan, const std::string& path, int64_t num_heads) {
  for (const int64_t blocks : {1, 2}) {
    plan.rules.push_back({.pattern = path + (blocks == 1 ? ".q.*" : ".kv.*"),
                          .split = Split::kColumn,
                          .blocks = blocks,
                          .groups = num_heads,
                          .groups_name = "num_heads"});
  }
  plan.rules.push_back({.pattern = path + ".proj.*",
                        .split = Split::kRow,
                        .groups = num_heads,
                        .groups_name = "num_heads"});
}

void add_stem(ParallelPlan& plan, const VitConfig& config, const std::string& prefix) {
  if (config.has_variables() && !config.single_channel && config.variables.size() > 1) {
    add_cross_attention(plan, prefix + "patch_embed.var_agg", config.num_heads);
  }
  std::vector<std::string> whole = {"patch_embed.*"};
  if (config.class_token) whole.emplace_back("cls_token");
  if (config.reg_tokens > 0) whole.emplace_back("reg_token");
  if (config.distilled) whole.emplace_back("dist_token");
  if (config.has_pos_table()) whole.emplace_back("pos_embed");
  if (config.has_factorized_pos()) {
    whole.emplace_back("pos_embed_y");
    whole.emplace_back("pos_embed_x");
  }
  if (config.is_adaptive() && config.pos_embed == "size_and_center") {
    whole.emplace_back("adaptive_pos_embed.*");
  }
  if (config.pre_norm) whole.emplace_back("norm_pre.*");
  for (auto& pattern : whole) {
    pattern = prefix + pattern;
    if (pattern.ends_with(".*")) add_units(plan, {pattern.substr(0, pattern.size() - 2)});
  }
  add_whole(plan, whole);
}

void add_head(ParallelPlan& plan, const VitConfig& config, const std::string& prefix) {
  const auto& pool = config.global_pool;
  const bool is_averaging = pool == "avg" || pool == "avgmax" || pool == "max";
  if (pool == "map") {
    add_cross_attention(plan, prefix + "attn_pool", config.num_heads);
    add_mlp(plan, prefix + "attn_pool.mlp",
            {.hidden_dim =
                 static_cast<int64_t>(static_cast<double>(config.embed_dim) * config.mlp_ratio)});
    add_whole(plan, {prefix + "attn_pool.latent", prefix + "attn_pool.norm.*"});
    add_units(plan, {prefix + "attn_pool"});
  }
  if (config.final_norm) {
    const auto norm = prefix + (config.fc_norm.value_or(is_averaging) ? "fc_norm" : "norm");
    add_whole(plan, {norm + ".*"});
    add_units(plan, {norm});
  }
  auto features = config.embed_dim;
  std::string name = "embed_dim";
  if (config.representation_size > 0) {
    add_row_of_whole(plan, prefix + "pre_logits.fc", features);
    add_units(plan, {prefix + "pre_logits.fc"});
    features = config.representation_size;
    name = "representation_size";
  }
  if (config.num_classes == 0) return;
  add_row_of_whole(plan, prefix + "head", features, name);
  add_units(plan, {prefix + "head"});
  if (!config.distilled) return;
  add_row_of_whole(plan, prefix + "head_dist", features, name);
  add_units(plan, {prefix + "head_dist"});
}

}  // namespace

void add_vit(ParallelPlan& plan, const VitConfig& config, const std::string& prefix,
             const std::vector<int64_t>& taps) {
  add_stem(plan, config, prefix);
  add_blocks(plan, prefix + "blocks", config.depth, block_options(config, 0, 0), taps);
  add_head(plan, config, prefix);
}

ParallelPlan parallel_plan(const VitConfig& config) {
  ParallelPlan plan;
  add_vit(plan, config, "");
  // Packed images differ in their numbers of tokens, which are not shared out.
  if (config.is_packed()) plan.regions.clear();
  return plan;
}

}  // namespace fovea::models
