// What a ViT is made of: its modules and parameters, in timm's order. D embed_dim.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/models/vit.h"

namespace fovea::models {
namespace {

bool is_averaging(const std::string& pool) {
  return pool == "avg" || pool == "avgmax" || pool == "max";
}

nn::NormOptions norm_options(const VitConfig& config) {
  return {nn::norm_from_name(config.norm_layer), config.norm_eps};
}

nn::VariableEmbedOptions variable_options(const VitConfig& config) {
  return {.num_variables = static_cast<int64_t>(config.variables.size()),
          .dim = config.embed_dim,
          .num_heads = config.num_heads,
          .is_shared = config.share_patch_embed,
          .is_aggregated = !config.single_channel};
}

}  // namespace

nn::BlockOptions block_options(const VitConfig& config, double drop_path_rate, int64_t index) {
  const auto norm = norm_options(config);
  return {
      .kind = nn::block_from_name(config.block_layer),
      .attention = {.kind = nn::attention_from_name(config.attn_layer),
                    .dim = config.embed_dim,
                    .num_heads = config.num_heads,
                    .qkv_bias = config.qkv_bias,
                    .proj_bias = config.proj_bias,
                    .qk_norm = config.qk_norm,
                    .scale_norm = config.scale_attn_norm,
                    .attn_drop_rate = config.attn_drop_rate,
                    .proj_drop_rate = config.proj_drop_rate,
                    .norm = norm,
                    .block_index = index},
      .mlp = {.kind = nn::mlp_from_name(config.mlp_layer),
              .dim = config.embed_dim,
              .hidden_dim = static_cast<int64_t>(config.embed_dim * config.mlp_ratio),
              .activation = kernels::activation_from_name(config.act_layer),
              .has_bias = config.proj_bias,
              .scale_norm = config.scale_mlp_norm,
              .drop_rate = config.proj_drop_rate,
              .norm = norm},
      .norm = norm,
      .has_layer_scale = config.init_values.has_value() && config.block_layer != "res_post_norm",
      .num_parallel = config.num_parallel,
      .drop_path_rate = drop_path_rate,
      .drop_path_skip = config.drop_path_skip};
}

Vit::Vit(const VitConfig& config, at::Device device) : config_(config) {
  check_config("vit", config);
  // Parameters are registered in timm's order: the root's own, then children.
  if (config.is_adaptive()) {
    grid_size_ = {config.fixed_length};
  } else {
    if (!config.has_variables()) patch_embed_ = nn::PatchEmbed(grid_options(), device);
    if (config.has_variables()) {
      variable_embed_ = nn::VariableEmbed(variable_options(config), grid_options(), device);
    }
    grid_size_ = grid_of(config.img_sides());
  }
  register_tokens(device);
  register_patch_embed(device);
  if (config.pre_norm) {
    norm_pre_ =
        register_module("norm_pre", nn::Norm(config.embed_dim, norm_options(config), device));
  }
  blocks_ = {*this, "blocks", config.depth, config.drop_path_rate, [&](int64_t i, double rate) {
               return nn::make_block(block_options(config, rate, i), device);
             }};
  register_head(device);
  nn::assign_names(*this);
}

nn::PatchEmbedOptions Vit::grid_options() const {
  return {.patch_size = config_.patch_sides(),
          .in_chans = config_.has_variables() ? 1 : config_.in_chans,
          .dim = config_.embed_dim,
          .has_bias = !config_.pre_norm,
          .norm = config_.embed_norm ? std::optional(norm_options(config_)) : std::nullopt,
          .crop_to_patches = config_.crop_to_patches,
          .pad_to_patches = config_.dynamic_img_pad};
}

std::vector<int64_t> Vit::grid_of(at::IntArrayRef img_size) const {
  return variable_embed_ ? variable_embed_->grid_size(img_size) : patch_embed_->grid_size(img_size);
}

kernels::Recordable Vit::can_be_recorded() const {
  if (config_.is_packed()) return {"the numbers of patches of a batch are the host's"};
  if (config_.drop_path_skip && config_.drop_path_rate > 0) {
    return {"with drop_path_skip the host chooses the samples of each block"};
  }
  return {};
}

AttentionView Vit::attention_view() const {
  return {.blocks = "blocks",
          .depth = config_.depth,
          .num_prefix = config_.num_prefix_tokens(),
          .uses_class_token = config_.class_token && config_.global_pool == "token"};
}

std::vector<int64_t> Vit::token_grid(at::IntArrayRef sides) const {
  const auto patch = config_.patch_sides();
  std::vector<int64_t> grid;
  for (size_t side = 0; side < patch.size(); ++side) {
    const int64_t extra = config_.dynamic_img_pad ? patch[side] - 1 : 0;
    grid.push_back((sides[side] + extra) / patch[side]);
  }
  return grid;
}

void Vit::register_patch_embed(at::Device device) {
  if (variable_embed_) {
    register_module("patch_embed", variable_embed_);
    return;
  }
  if (patch_embed_) {
    register_module("patch_embed", patch_embed_);
    return;
  }
  const auto patch = config_.patch_sides();
  const auto values = std::accumulate(patch.begin(), patch.end(), int64_t{1}, std::multiplies<>());
  if (config_.has_variables()) {
    variable_embed_ = register_module(
        "patch_embed",
        nn::VariableEmbed(variable_options(config_), values, config_.patch_norm, device));
  } else {
    adaptive_embed_ = register_module(
        "patch_embed", nn::AdaptivePatchEmbed(values, config_.in_chans, config_.embed_dim,
                                              config_.patch_norm, device));
  }
  if (config_.pos_embed != "size_and_center") return;
  auto sides = config_.img_sides();  // H, W or D, H, W
  std::reverse(sides.begin(), sides.end());
  adaptive_pos_ = register_module(
      "adaptive_pos_embed",
      nn::AdaptivePosEmbed(sides, config_.pos_in_pixels, config_.embed_dim, device));
}

void Vit::register_tokens(at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  const auto dim = config_.embed_dim;
  if (config_.class_token) {
    cls_token_ = register_parameter("cls_token", at::empty({1, 1, dim}, options));
  }
  if (config_.reg_tokens > 0) {
    reg_token_ = register_parameter("reg_token", at::empty({1, config_.reg_tokens, dim}, options));
  }
  if (config_.has_pos_table()) {
    const auto num_patches =
        std::accumulate(grid_size_.begin(), grid_size_.end(), int64_t{1}, std::multiplies<>());
    const auto rows = num_patches + (config_.no_embed_class ? 0 : config_.num_prefix_tokens());
    pos_embed_ = register_parameter("pos_embed", at::empty({1, rows, dim}, options),
                                    /*requires_grad=*/config_.pos_embed != "sincos");
  }
  if (config_.has_factorized_pos()) {
    pos_embed_y_ = register_parameter("pos_embed_y", at::empty({1, grid_size_[0], dim}, options));
    pos_embed_x_ = register_parameter("pos_embed_x", at::empty({1, grid_size_[1], dim}, options));
  }
  if (config_.distilled) {
    dist_token_ = register_parameter("dist_token", at::empty({1, 1, dim}, options));
  }
}

void Vit::register_head(at::Device device) {
  const auto dim = config_.embed_dim;
  const auto norm = norm_options(config_);
  const bool use_fc_norm = config_.fc_norm.value_or(is_averaging(config_.global_pool));
  if (config_.final_norm && !use_fc_norm) {
    norm_ = register_module("norm", nn::Norm(dim, norm, device));
  }
  if (config_.global_pool == "map") {
    const nn::AttentionPoolOptions options{
        .dim = dim,
        .num_heads = config_.num_heads,
        .mlp_ratio = config_.mlp_ratio,
        .activation = kernels::activation_from_name(config_.act_layer),
        .norm = norm};
    attn_pool_ = register_module("attn_pool", nn::AttentionPool(options, device));
  }
  if (config_.final_norm && use_fc_norm) {
    fc_norm_ = register_module("fc_norm", nn::Norm(dim, norm, device));
  }
  auto features = dim;
  if (config_.representation_size > 0) {
    features = config_.representation_size;
    const auto list = register_module("pre_logits", std::make_shared<torch::nn::Module>());
    pre_logits_ = list->register_module("fc", nn::Linear(dim, features, true, device));
  }
  if (config_.num_classes > 0) {
    head_ = register_module("head", nn::Linear(features, config_.num_classes, true, device));
    if (config_.distilled) {
      head_dist_ =
          register_module("head_dist", nn::Linear(features, config_.num_classes, true, device));
    }
  }
}

}  // namespace fovea::models
