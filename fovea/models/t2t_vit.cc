// B batch, C channels, N tokens, D embed_dim.
#include "fovea/models/t2t_vit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <numeric>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/models/channel_statistics.h"
#include "fovea/nn/init.h"
#include "fovea/nn/sinusoid.h"

namespace fovea::models {
namespace {

nn::TokensToTokenOptions tokens_to_token_options(const T2tVitConfig& config) {
  const auto kind = nn::token_attention_from_name(config.token_attention);
  const bool is_performer = kind == nn::TokenAttentionKind::kPerformer;
  nn::TokensToTokenOptions options{
      .attention = kind,
      .in_chans = config.in_chans,
      .token_dim = config.token_dim,
      .dim = config.embed_dim,
      .drop_rate = config.token_drop_rate.value_or(is_performer ? 0.1 : 0.0),
      .norm_eps = config.norm_eps};
  for (size_t i = 0; i < options.splits.size(); ++i) {
    options.splits[i] = {config.split_kernels[i], config.split_strides[i],
                         config.split_paddings[i]};
  }
  return options;
}

}  // namespace

nn::BlockOptions block_options(const T2tVitConfig& config, double drop_path_rate) {
  const nn::NormOptions norm{nn::NormKind::kLayerNorm, config.norm_eps};
  const auto dim = static_cast<double>(config.embed_dim);
  return {.attention = {.dim = config.embed_dim,
                        .num_heads = config.num_heads,
                        .qkv_bias = config.qkv_bias,
                        .scale = config.qk_scale == "embed_dim" ? 1.0 / std::sqrt(dim) : 0.0,
                        .attn_drop_rate = config.attn_drop_rate,
                        .proj_drop_rate = config.proj_drop_rate},
          .mlp = {.dim = config.embed_dim,
                  .hidden_dim = static_cast<int64_t>(dim * config.mlp_ratio),
                  .drop_rate = config.proj_drop_rate},
          .norm = norm,
          .drop_path_rate = drop_path_rate,
          .drop_path_skip = config.drop_path_skip};
}

T2tVit::T2tVit(const T2tVitConfig& config, at::Device device) : config_(config) {
  check_config("t2t_vit", config);
  const auto dim = config.embed_dim;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  tokens_to_token_ = nn::TokensToToken(tokens_to_token_options(config), device);
  grid_size_ = tokens_to_token_->grid_size(config.img_sides());
  const auto num_tokens = 1 + c10::multiply_integers(grid_size_);
  cls_token_ = register_parameter("cls_token", at::empty({1, 1, dim}, options));
  pos_embed_ = register_parameter("pos_embed", at::empty({1, num_tokens, dim}, options),
                                  /*requires_grad=*/false);
  register_module("tokens_to_token", tokens_to_token_);
  blocks_ = {*this, "blocks", config.depth, config.drop_path_rate,
             [&](int64_t /*index*/, double rate) {
               return nn::Block(block_options(config, rate), device);
             }};
  norm_ = register_module(
      "norm", nn::Norm(dim, nn::NormOptions{nn::NormKind::kLayerNorm, config.norm_eps}, device));
  if (config.num_classes > 0) {
    head_ = register_module("head", nn::Linear(dim, config.num_classes, /*has_bias=*/true, device));
  }
  nn::assign_names(*this);
}

at::Tensor T2tVit::forward(const ModelInput& input) const {
  return run([&] {
    const auto features = class_token_of(input.images());  // [B, D]
    return head_ ? head_(features) : features;             // [B, num_classes]
  });
}

at::Tensor T2tVit::pooled_features(const ModelInput& input) const {
  return run([&] { return class_token_of(input.images()); });  // [B, D]
}

at::Tensor T2tVit::classify(const at::Tensor& features) const {
  if (!head_) fail<ConfigError>("the model has no head; set model.num_classes");
  return head_(features);  // [B, num_classes]
}

at::Tensor T2tVit::forward_features(const at::Tensor& images) const {
  return norm_(blocks_(embed(images)));
}

// -> [B, D], where of the last block's output nothing else is read.
at::Tensor T2tVit::class_token_of(const at::Tensor& images) const {
  const auto y = blocks_.forward_read(1, embed(images), at::Tensor(), at::Tensor());
  return norm_(y).select(1, 0);
}

// -> [B, N, D], with the class token and positions.
at::Tensor T2tVit::embed(const at::Tensor& images) const {
  const auto expected = config_.img_sides();
  FOVEA_CHECK(images.dim() == 4 && images.size(1) == config_.in_chans &&
                  images.sizes().slice(2) == at::IntArrayRef(expected),
              "images of shape [{}] for a model of {} channels and img_size [{}]; resize them, or "
              "change the model",
              fmt::join(images.sizes(), ", "), config_.in_chans, fmt::join(expected, ", "));
  const auto patches = tokens_to_token_(images);  // [B, N - 1, D]
  const auto kind = patches.scalar_type();
  const auto cls = cls_token_.to(kind).expand({images.size(0), -1, -1});  // [B, 1, D]
  const auto x = at::cat({cls, patches}, 1) + pos_embed_.to(kind);        // [B, N, D]
  return dropout(x, config_.pos_drop_rate, "pos_drop");
}

void T2tVit::init_parameter(const std::string& name, const at::Tensor& value, uint64_t seed) const {
  const at::NoGradGuard no_grad;
  if (name == "pos_embed") {
    value.copy_(nn::sinusoid_table(value.size(1), value.size(2)));
  } else if (name.ends_with(".w")) {
    value.copy_(nn::orthogonal_features(value.size(0), value.size(1), name, seed));
  } else if (name == "cls_token") {
    nn::initialize(value, name, seed, {nn::InitRule::normal(0.02)});
  } else {
    nn::initialize(value, name, seed, nn::vit_init(name, value.sizes(), {}));
  }
}

InputSpec T2tVit::input_spec() const {
  return {.in_chans = config_.in_chans,
          .img_size = config_.img_sides(),
          .mean = fit_to_channels(config_.input.mean, config_.in_chans),
          .std = fit_to_channels(config_.input.std, config_.in_chans),
          .crop_pct = config_.input.crop_pct,
          .crop_mode = config_.input.crop_mode,
          .interpolation = config_.input.interpolation};
}

at::Tensor T2tVit::adapt_parameter(const std::string& name, const at::Tensor& saved) const {
  if (name != "pos_embed" || saved.dim() != 3 || saved.size(1) < 2) return {};
  // The saved grid's sides are not in the file: they are taken to be equal.
  const auto side = std::llround(std::sqrt(static_cast<double>(saved.size(1) - 1)));
  if (side * side != saved.size(1) - 1) return {};
  const auto grid = saved.narrow(1, 1, side * side)
                        .to(at::kFloat)
                        .unflatten(1, at::IntArrayRef{side, side})
                        .permute({0, 3, 1, 2});  // [1, D, side, side]
  const auto resized =
      at::upsample_bicubic2d(grid, grid_size_, /*align_corners=*/false);  // [1, D, rows, columns]
  return at::cat({saved.narrow(1, 0, 1).to(at::kFloat), resized.flatten(2).transpose(1, 2)}, 1);
}

int64_t T2tVit::layer_id(const std::string& parameter_name) const {
  for (const auto* stem : {"tokens_to_token.", "cls_token", "pos_embed"}) {
    if (parameter_name.starts_with(stem)) return 0;
  }
  if (parameter_name.starts_with("blocks.")) {
    int64_t block = 0;
    std::from_chars(parameter_name.data() + 7, parameter_name.data() + parameter_name.size(),
                    block);
    return block + 1;
  }
  return parameter_name.starts_with("norm.") ? config_.depth : config_.depth + 1;
}

kernels::Recordable T2tVit::can_be_recorded() const {
  if (!config_.drop_path_skip || config_.drop_path_rate == 0) return {};
  return {"with drop_path_skip the host chooses the samples of each block"};
}

}  // namespace fovea::models
