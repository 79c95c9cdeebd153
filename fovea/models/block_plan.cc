#include "fovea/models/block_plan.h"

#include <algorithm>

namespace fovea::models {
namespace {

using parallel::ParallelPlan;
using parallel::Split;

void add_attention(ParallelPlan& plan, const std::string& path,
                   const nn::AttentionOptions& attention) {
  const auto heads = attention.num_heads;
  plan.rules.push_back({.pattern = path + ".qkv.*",
                        .split = Split::kColumn,
                        .blocks = 3,
                        .groups = heads,
                        .groups_name = "num_heads",
                        .drop = "attn_drop",
                        .drop_dim = 1});
  plan.rules.push_back({.pattern = path + ".proj.*",
                        .split = Split::kRow,
                        .groups = heads,
                        .groups_name = "num_heads"});
  if (attention.qk_norm) {
    plan.rules.push_back({.pattern = path + ".[qk]_norm.*", .split = Split::kByHead});
  }
  if (attention.scale_norm) {
    plan.rules.push_back({.pattern = path + ".norm.*", .split = Split::kNormOfSplit});
  }
}

// Between the taps: the model wants all tokens behind each of them.
void add_regions(ParallelPlan& plan, const std::string& list, int64_t depth,
                 const nn::AttentionOptions& attention, const std::vector<int64_t>& taps) {
  parallel::SequenceRegion region;
  for (int64_t i = 0; i < depth; ++i) {
    region.units.push_back(list + "." + std::to_string(i));
    const bool is_tapped = std::find(taps.begin(), taps.end(), i) != taps.end();
    if (!is_tapped && i + 1 < depth) continue;
    region.attn_drop_rate = attention.attn_drop_rate;
    plan.regions.push_back(std::move(region));
    region = {};
  }
}

}  // namespace

void add_mlp(ParallelPlan& plan, const std::string& path, const nn::MlpOptions& mlp) {
  const bool is_packed = mlp.kind == nn::MlpKind::kSwigluPacked;
  const auto features = is_packed ? mlp.hidden_dim / 2 : mlp.hidden_dim;
  const std::string name = "the hidden width of the MLP";
  plan.rules.push_back(
      {.pattern = path + (mlp.kind == nn::MlpKind::kSwiglu ? ".fc1_[gx].*" : ".fc1.*"),
       .split = Split::kColumn,
       .blocks = is_packed ? 2 : 1,
       .groups = features,
       .groups_name = name,
       .drop = "drop1"});
  plan.rules.push_back(
      {.pattern = path + ".fc2.*", .split = Split::kRow, .groups = features, .groups_name = name});
  if (mlp.scale_norm) {
    plan.rules.push_back({.pattern = path + ".norm.*", .split = Split::kNormOfSplit});
  }
}

void add_row_of_whole(ParallelPlan& plan, const std::string& path, int64_t in_features,
                      const std::string& name) {
  plan.rules.push_back({.pattern = path + ".*",
                        .split = Split::kRowOfWhole,
                        .groups = in_features,
                        .groups_name = name});
}

void add_units(ParallelPlan& plan, const std::vector<std::string>& paths) {
  for (const auto& path : paths) plan.units.push_back({.path = path});
}

void add_whole(ParallelPlan& plan, const std::vector<std::string>& patterns) {
  for (const auto& pattern : patterns) plan.rules.push_back({.pattern = pattern});
}

void add_blocks(ParallelPlan& plan, const std::string& list, int64_t depth,
                const nn::BlockOptions& block, const std::vector<int64_t>& taps) {
  if (depth == 0) return;
  add_attention(plan, list + ".*.attn", block.attention);
  add_mlp(plan, list + ".*.mlp", block.mlp);
  add_whole(plan, {list + ".*.norm[12].*"});
  if (block.has_layer_scale) add_whole(plan, {list + ".*.ls[12].gamma"});
  add_regions(plan, list, depth, block.attention, taps);
}

void add_conditioned_blocks(ParallelPlan& plan, const std::string& list, int64_t depth,
                            const nn::BlockOptions& block, int64_t condition_dim) {
  if (depth == 0) return;
  add_attention(plan, list + ".*.attn", block.attention);
  add_mlp(plan, list + ".*.mlp", block.mlp);
  add_row_of_whole(plan, list + ".*.modulation.proj", condition_dim);
  add_regions(plan, list, depth, block.attention, {});
}

}  // namespace fovea::models
