#include "fovea/models/block_partitioning.h"

#include <algorithm>

namespace fovea::models {
namespace {

using parallel::Partitioning;
using parallel::Split;

constexpr const char* kHiddenWidth = "the hidden width of the MLP";

// What every head is put through.
void add_heads(Partitioning& partitioning, const std::string& path,
               const nn::AttentionOptions& attention) {
  const auto add = [&](const char* name) {
    partitioning.rules.push_back({.pattern = path + name, .split = Split::kByHead});
  };
  if (attention.qk_norm) add(".[qk]_norm.*");
  if (attention.kind != nn::AttentionKind::kDifferential) return;
  add(".lambda_*");
  add(".sub_norm.*");
}

void add_attention(Partitioning& partitioning, const std::string& path,
                   const nn::AttentionOptions& attention) {
  const auto heads = attention.num_heads;
  partitioning.rules.push_back({.pattern = path + ".qkv.*",
                                .split = Split::kColumn,
                                .blocks = 3,
                                .groups = heads,
                                .groups_name = "num_heads"});
  partitioning.rules.push_back({.pattern = path + ".proj.*",
                                .split = Split::kRow,
                                .groups = heads,
                                .groups_name = "num_heads"});
  add_heads(partitioning, path, attention);
  if (attention.scale_norm) {
    partitioning.rules.push_back({.pattern = path + ".norm.*", .split = Split::kNormOfSplit});
  }
}

// An nn::ParallelScalingBlock: heads and hidden features stand next to each other.
void add_parallel_scaling(Partitioning& partitioning, const std::string& path,
                          const nn::BlockOptions& block) {
  const auto dim = block.attention.dim, heads = block.attention.num_heads;
  const auto features = block.mlp.hidden_dim;
  const std::string name = kHiddenWidth;
  partitioning.rules.push_back({.pattern = path + ".in_proj.*",
                                .split = Split::kColumn,
                                .blocks = 3,
                                .lead = features,
                                .groups = heads,
                                .groups_name = "num_heads"});
  if (!block.attention.qkv_bias) {
    partitioning.rules.push_back({.pattern = path + ".mlp_bias",
                                  .split = Split::kColumn,
                                  .groups = features,
                                  .groups_name = name});
  }
  const bool is_one = block.attention.kind == nn::AttentionKind::kDifferential;
  partitioning.rules.push_back({.pattern = path + (is_one ? ".out_proj.*" : ".mlp_out_proj.*"),
                                .split = Split::kRow,
                                .lead = is_one ? dim : 0,
                                .groups = features,
                                .groups_name = name});
  if (!is_one) {
    partitioning.rules.push_back({.pattern = path + ".attn_out_proj.*",
                                  .split = Split::kRow,
                                  .groups = heads,
                                  .groups_name = "num_heads"});
  }
  add_heads(partitioning, path, block.attention);
  add_whole(partitioning, {path + ".in_norm.*"});
  if (block.has_layer_scale) add_whole(partitioning, {path + ".ls.gamma"});
}

// Between the taps: the model wants all tokens behind each of them.
void add_regions(Partitioning& partitioning, const std::string& list, int64_t depth,
                 const nn::AttentionOptions& attention, const std::vector<int64_t>& taps) {
  parallel::SequenceRegion region;
  for (int64_t i = 0; i < depth; ++i) {
    region.units.push_back(list + "." + std::to_string(i));
    const bool is_tapped = std::find(taps.begin(), taps.end(), i) != taps.end();
    if (!is_tapped && i + 1 < depth) continue;
    region.attn_drop_rate = attention.attn_drop_rate;
    partitioning.regions.push_back(std::move(region));
    region = {};
  }
}

}  // namespace

void add_mlp(Partitioning& partitioning, const std::string& path, const nn::MlpOptions& mlp) {
  const bool is_packed = mlp.kind == nn::MlpKind::kSwigluPacked;
  const auto features = is_packed ? mlp.hidden_dim / 2 : mlp.hidden_dim;
  const std::string name = kHiddenWidth;
  partitioning.rules.push_back(
      {.pattern = path + (mlp.kind == nn::MlpKind::kSwiglu ? ".fc1_[gx].*" : ".fc1.*"),
       .split = Split::kColumn,
       .blocks = is_packed ? 2 : 1,
       .groups = features,
       .groups_name = name});
  partitioning.rules.push_back(
      {.pattern = path + ".fc2.*", .split = Split::kRow, .groups = features, .groups_name = name});
  if (mlp.scale_norm) {
    partitioning.rules.push_back({.pattern = path + ".norm.*", .split = Split::kNormOfSplit});
  }
}

void add_row_of_whole(Partitioning& partitioning, const std::string& path, int64_t in_features,
                      const std::string& name) {
  partitioning.rules.push_back({.pattern = path + ".*",
                                .split = Split::kRowOfWhole,
                                .groups = in_features,
                                .groups_name = name});
}

void add_units(Partitioning& partitioning, const std::vector<std::string>& paths) {
  for (const auto& path : paths) partitioning.units.push_back({.path = path});
}

void add_whole(Partitioning& partitioning, const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) partitioning.rules.push_back({.pattern = pattern});
}

void add_blocks(Partitioning& partitioning, const std::string& list, int64_t depth,
                const nn::BlockOptions& block, const std::vector<int64_t>& taps) {
  if (depth == 0) return;
  add_regions(partitioning, list, depth, block.attention, taps);
  const auto path = list + ".*";
  if (block.kind == nn::BlockKind::kParallelScaling) {
    add_parallel_scaling(partitioning, path, block);
    return;
  }
  add_attention(partitioning, path + ".attn", block.attention);
  add_mlp(partitioning, path + ".mlp", block.mlp);
  if (block.kind == nn::BlockKind::kParallelThings) {
    for (const auto* branches : {".attns.*", ".ffns.*"}) {
      add_whole(partitioning, {path + branches + ".norm.*"});
      if (block.has_layer_scale) add_whole(partitioning, {path + branches + ".ls.gamma"});
    }
    return;
  }
  add_whole(partitioning, {path + ".norm[12].*"});
  if (block.has_layer_scale) add_whole(partitioning, {path + ".ls[12].gamma"});
}

void add_conditioned_blocks(Partitioning& partitioning, const std::string& list, int64_t depth,
                            const nn::BlockOptions& block, int64_t condition_dim) {
  if (depth == 0) return;
  add_attention(partitioning, list + ".*.attn", block.attention);
  add_mlp(partitioning, list + ".*.mlp", block.mlp);
  add_row_of_whole(partitioning, list + ".*.modulation.proj", condition_dim);
  add_regions(partitioning, list, depth, block.attention, {});
}

}  // namespace fovea::models
