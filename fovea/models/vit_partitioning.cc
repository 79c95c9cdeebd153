#include "fovea/models/vit_partitioning.h"

#include "fovea/models/block_partitioning.h"
#include "fovea/models/vit.h"

namespace fovea::models {
namespace {

using parallel::Partitioning;
using parallel::Split;

// q, kv and proj at a path: attention of one query to tokens.
void add_cross_attention(Partitioning& partitioning, const std::string& path, int64_t num_heads) {
  for (const int64_t blocks : {1, 2}) {
    partitioning.rules.push_back({.pattern = path + (blocks == 1 ? ".q.*" : ".kv.*"),
                                  .split = Split::kColumn,
                                  .blocks = blocks,
                                  .groups = num_heads,
                                  .groups_name = "num_heads"});
  }
  partitioning.rules.push_back({.pattern = path + ".proj.*",
                                .split = Split::kRow,
                                .groups = num_heads,
                                .groups_name = "num_heads"});
}

void add_stem(Partitioning& partitioning, const VitConfig& config, const std::string& prefix) {
  if (config.has_variables() && !config.single_channel && config.variables.size() > 1) {
    add_cross_attention(partitioning, prefix + "patch_embed.var_agg", config.num_heads);
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
    if (pattern.ends_with(".*")) add_units(partitioning, {pattern.substr(0, pattern.size() - 2)});
  }
  add_whole(partitioning, whole);
}

void add_head(Partitioning& partitioning, const VitConfig& config, const std::string& prefix) {
  const auto& pool = config.global_pool;
  const bool is_averaging = pool == "avg" || pool == "avgmax" || pool == "max";
  if (pool == "map") {
    add_cross_attention(partitioning, prefix + "attn_pool", config.num_heads);
    add_mlp(partitioning, prefix + "attn_pool.mlp",
            {.hidden_dim =
                 static_cast<int64_t>(static_cast<double>(config.embed_dim) * config.mlp_ratio)});
    add_whole(partitioning, {prefix + "attn_pool.latent", prefix + "attn_pool.norm.*"});
    add_units(partitioning, {prefix + "attn_pool"});
  }
  if (config.final_norm) {
    const auto norm = prefix + (config.fc_norm.value_or(is_averaging) ? "fc_norm" : "norm");
    add_whole(partitioning, {norm + ".*"});
    add_units(partitioning, {norm});
  }
  auto features = config.embed_dim;
  std::string name = "embed_dim";
  if (config.representation_size > 0) {
    add_row_of_whole(partitioning, prefix + "pre_logits.fc", features);
    add_units(partitioning, {prefix + "pre_logits.fc"});
    features = config.representation_size;
    name = "representation_size";
  }
  if (config.num_classes == 0) return;
  add_row_of_whole(partitioning, prefix + "head", features, name);
  add_units(partitioning, {prefix + "head"});
  if (!config.distilled) return;
  add_row_of_whole(partitioning, prefix + "head_dist", features, name);
  add_units(partitioning, {prefix + "head_dist"});
}

}  // namespace

void add_vit(Partitioning& partitioning, const VitConfig& config, const std::string& prefix,
             const std::vector<int64_t>& taps) {
  add_stem(partitioning, config, prefix);
  add_blocks(partitioning, prefix + "blocks", config.depth, block_options(config, 0, 0), taps);
  add_head(partitioning, config, prefix);
}

Partitioning partitioning_of(const VitConfig& config) {
  Partitioning partitioning;
  add_vit(partitioning, config, "");
  // Packed images differ in their numbers of tokens, which are not shared out.
  if (config.is_packed()) partitioning.regions.clear();
  return partitioning;
}

}  // namespace fovea::models
