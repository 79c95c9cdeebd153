// B batch, C channels, N patches, D embed_dim, E width of the condition (embed_dim), P patch side.
#include "fovea/models/diffusion_vit.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <charconv>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/nn/patchify.h"
#include "fovea/nn/pos_embed.h"

namespace fovea::models {
namespace {

constexpr double kDecoderNormEps = 1e-5;  // as upstream's; DiT's is that of the blocks

// Under adaln_zero the blocks are not the ViT's own: its stem is left.
EncoderConfig encoder_config(const DiffusionVitConfig& config) {
  check_config("diffusion_vit", config, "encoder", config.encoder);
  auto encoder = config.encoder;
  if (config.has_adaln()) {
    encoder.vit.depth = 0;
    encoder.vit.final_norm = false;
  }
  return encoder;
}

nn::TimestepEmbedOptions time_options(const DiffusionVitConfig& config) {
  const auto dim = config.encoder.vit.embed_dim;
  if (config.has_adaln()) return {.dim = dim};
  return {.width = dim,
          .dim = dim,
          .layout = nn::TimestepLayout::kInterleaved,
          .activation = kernels::Activation::kRelu,
          .drop_rate = config.time_drop_rate};
}

// Those of a ViT, under a condition.
nn::BlockList<nn::ConditionedBlock> conditioned_blocks(torch::nn::Module& parent,
                                                       const std::string& name,
                                                       const VitConfig& vit, int64_t condition_dim,
                                                       at::Device device) {
  return {parent, name, vit.depth, vit.drop_path_rate, [&](int64_t i, double rate) {
            const auto plain = block_options(vit, rate, i);
            return nn::ConditionedBlock(
                nn::ConditionedBlockOptions{.attention = plain.attention,
                                            .mlp = plain.mlp,
                                            .norm = plain.norm,
                                            .condition_dim = condition_dim,
                                            .drop_path_rate = rate,
                                            .drop_path_skip = vit.drop_path_skip},
                device);
          }};
}

}  // namespace

VitConfig decoder_vit(const DiffusionVitConfig& config) {
  auto vit = config.encoder.vit;
  vit.embed_dim = config.decoder_embed_dim;
  vit.depth = config.decoder_depth;
  vit.num_heads = config.decoder_num_heads;
  vit.mlp_ratio = config.decoder_mlp_ratio;
  return vit;
}

DiffusionVit::DiffusionVit(const DiffusionVitConfig& config, at::Device device)
    : EncoderModel(encoder_config(config), device), config_(config) {
  register_condition(device);
  if (config.has_adaln()) {
    const auto& vit = config.encoder.vit;
    blocks_ = conditioned_blocks(*this, "blocks", vit, vit.embed_dim, device);
  }
  register_decoder(device);
  nn::assign_names(*this);
}

void DiffusionVit::register_condition(at::Device device) {
  if (config_.num_classes > 0) {
    class_embed_ = register_parameter(
        "class_embed", at::empty({config_.num_classes + 1, config_.encoder.vit.embed_dim},
                                 at::TensorOptions().dtype(at::kFloat).device(device)));
  }
  time_embed_ = register_module("time_embed", nn::TimestepEmbed(time_options(config_), device));
}

void DiffusionVit::register_decoder(at::Device device) {
  const auto& vit = config_.encoder.vit;
  const auto condition_dim = vit.embed_dim;
  const bool has_adaln = config_.has_adaln();
  const auto dim = config_.linear_decoder ? vit.embed_dim : config_.decoder_embed_dim;
  if (!config_.linear_decoder) {
    const auto decoder = decoder_vit(config_);
    decoder_embed_ = register_module("decoder_embed", nn::Linear(vit.embed_dim, dim, true, device));
    if (vit.pos_embed == "size_and_center") {
      auto sides = vit.img_sides();  // H, W or D, H, W
      std::reverse(sides.begin(), sides.end());
      decoder_adaptive_pos_ =
          register_module("decoder_adaptive_pos_embed",
                          nn::AdaptivePosEmbed(sides, vit.pos_in_pixels, dim, device));
    } else {
      decoder_pos_embed_ = register_parameter(
          "decoder_pos_embed", at::empty({1, c10::multiply_integers(encoder().grid_size()), dim},
                                         at::TensorOptions().dtype(at::kFloat).device(device)));
    }
    if (has_adaln) {
      decoder_conditioned_blocks_ =
          conditioned_blocks(*this, "decoder_blocks", decoder, condition_dim, device);
    } else {
      decoder_blocks_ = {*this, "decoder_blocks", decoder.depth, decoder.drop_path_rate,
                         [&](int64_t i, double rate) {
                           return nn::make_block(block_options(decoder, rate, i), device);
                         }};
    }
  }
  auto norm = block_options(vit, 0, 0).norm;
  if (has_adaln) {
    norm.has_affine = false;
    decoder_modulation_ = register_module("decoder_modulation",
                                          nn::Modulation(condition_dim, dim, /*count=*/2, device));
  } else {
    norm.eps = kDecoderNormEps;
  }
  if (has_adaln || !config_.linear_decoder) {
    decoder_norm_ = register_module("decoder_norm", nn::Norm(dim, norm, device));
  }
  const auto values = vit.in_chans * c10::multiply_integers(vit.patch_sides());
  decoder_pred_ = register_module("decoder_pred", nn::Linear(dim, values, true, device));
}

at::Tensor DiffusionVit::forward(const ModelInput& input) const {
  const auto& given = input.tensor();
  return denoise(input, at::zeros({given.size(0)}, given.options().dtype(at::kLong)));
}

at::Tensor DiffusionVit::denoise(const ModelInput& noisy, const at::Tensor& timesteps,
                                 const at::Tensor& classes) const {
  const auto& given = noisy.tensor();
  FOVEA_CHECK(timesteps.dim() == 1 && timesteps.size(0) == given.size(0),
              "{} time steps for {} images; expected one for each", timesteps.numel(),
              given.size(0));
  return denoise_with(noisy, time_features(timesteps).to(given.scalar_type()), classes);
}

at::Tensor DiffusionVit::denoise_with(const ModelInput& noisy, const at::Tensor& time_features,
                                      const at::Tensor& classes) const {
  return run([&] {
    const auto& vit = encoder();
    const auto c = condition(time_features, classes);  // [B, E]
    const auto mask = noisy.has_patches() ? vit.token_mask(noisy.patches()) : at::Tensor();
    const auto x = encode_with(vit.embed_patches(noisy), c, mask);  // [B, prefix + N, D]
    const auto num_prefix = vit.config().num_prefix_tokens(), length = x.size(1) - num_prefix;
    const auto rows = decode(x.narrow(1, num_prefix, length), c, position_of(noisy),
                             mask.defined() ? mask.narrow(1, num_prefix, length) : mask);
    const auto values = vit.to_batch_channels(rows, noisy.channels);  // [B, N, P * P * C]
    const auto& given = noisy.tensor();
    if (!noisy.has_patches()) {
      return nn::unpatchify(values, vit.config().patch_sides(), given.sizes().slice(2));
    }
    return values.unflatten(-1, {given.size(3), -1}).permute({0, 3, 1, 2});  // [B, C, L, S]
  });
}

// Of the decoder's tokens: [1 or B, N, decoder D].
at::Tensor DiffusionVit::position_of(const ModelInput& input) const {
  if (!decoder_adaptive_pos_) return decoder_pos_embed_;
  const auto& patches = input.patches();
  const auto kind = patches.tokens.scalar_type();
  return decoder_adaptive_pos_(patches.sizes.to(kind), patches.centers.to(kind));
}

// patches: [B, N, D], embedded; mask: [B, prefix + N], tokens that are attended to. ->
// [B, prefix + N, D] after the blocks.
at::Tensor DiffusionVit::encode_with(const at::Tensor& patches, const at::Tensor& condition,
                                     const at::Tensor& mask) const {
  auto x = encoder().add_prefix(patches);
  if (!config_.has_adaln()) x = x + condition.unsqueeze(1);
  // A stem has no blocks: what is left of encode is norm_pre, if any.
  x = encoder().encode(x, {}, nullptr, mask);
  return blocks_(x, condition, mask);
}

// -> [B, E]: embedding of the time step, plus that of the class where the model has classes.
at::Tensor DiffusionVit::condition(const at::Tensor& time_features,
                                   const at::Tensor& classes) const {
  const auto time = time_embed_->embed(time_features);
  if (!class_embed_.defined()) {
    FOVEA_CHECK(!classes.defined(), "classes for a diffusion ViT without: set model.num_classes");
    return time;
  }
  const auto rows = classes.defined() ? classes
                                      : at::full({time.size(0)}, config_.num_classes,
                                                 time.options().dtype(at::kLong));
  return time + class_embed_.index_select(0, rows).to(time.scalar_type());
}

// tokens: [B, N, D], condition: [B, E], position: [1 or B, N, decoder D], mask: [B, N] ->
// [B, N, P * P * C].
at::Tensor DiffusionVit::decode(const at::Tensor& tokens, const at::Tensor& condition,
                                const at::Tensor& position, const at::Tensor& mask) const {
  auto x = tokens;
  if (decoder_embed_) {
    x = decoder_embed_(x);  // [B, N, decoder D]
    x = x + position.to(x.scalar_type());
  }
  x = config_.has_adaln() ? decoder_conditioned_blocks_(x, condition, mask)
                          : decoder_blocks_(x, mask);
  if (decoder_norm_) x = decoder_norm_(x);
  if (decoder_modulation_) {
    const auto m = decoder_modulation_(condition).unbind(0);  // two of [B, 1, D]
    x = nn::modulate(x, m[0], m[1]);
  }
  return decoder_pred_(x);
}

void DiffusionVit::init_parameter(const std::string& name, const at::Tensor& value,
                                  uint64_t seed) const {
  if (name != "decoder_pos_embed" || config_.encoder.vit.is_adaptive()) {
    return EncoderModel::init_parameter(name, value, seed);
  }
  const at::NoGradGuard no_grad;
  value.copy_(
      nn::sincos_pos_embed(encoder().grid_size(), config_.decoder_embed_dim, /*num_prefix=*/0));
}

nn::ParameterInit DiffusionVit::own_init(const std::string& name, at::IntArrayRef shape) const {
  // What starts at zero makes each block the identity and the prediction zero.
  const bool is_last = config_.has_adaln() && name.starts_with("decoder_pred.");
  if (is_last || name.find("modulation.") != std::string::npos) {
    return {nn::InitRule::constant(0.0)};
  }
  if (name == "class_embed" || name == "decoder_pos_embed" ||
      (config_.has_adaln() && name.starts_with("time_embed.") && name.ends_with(".weight"))) {
    return {nn::InitRule::normal(0.02)};
  }
  const auto& vit = config_.encoder.vit;
  return nn::vit_init(name, shape,
                      {.scheme = nn::init_scheme_from_name(vit.weight_init),
                       .packed_gate = vit.mlp_layer == "swiglu_packed",
                       .layer_scale = vit.init_values.value_or(1.0),
                       .scale_by_depth = vit.fix_init});
}

std::vector<std::string> DiffusionVit::own_no_weight_decay() const {
  std::vector<std::string> names;
  if (class_embed_.defined()) names.emplace_back("class_embed");
  if (decoder_pos_embed_.defined()) names.emplace_back("decoder_pos_embed");
  return names;
}

bool DiffusionVit::is_backbone(const std::string& parameter_name) const {
  return EncoderModel::is_backbone(parameter_name) || parameter_name.starts_with("blocks.");
}

int64_t DiffusionVit::layer_id(const std::string& parameter_name) const {
  if (!config_.has_adaln()) return EncoderModel::layer_id(parameter_name);
  constexpr std::string_view kBlocks = "blocks.";
  if (parameter_name.starts_with("encoder.")) return 0;
  if (!parameter_name.starts_with(kBlocks)) return num_layers() - 1;
  int64_t block = 0;
  std::from_chars(parameter_name.data() + kBlocks.size(),
                  parameter_name.data() + parameter_name.size(), block);
  return block + 1;
}

int64_t DiffusionVit::num_layers() const {
  return config_.has_adaln() ? config_.encoder.vit.depth + 2 : EncoderModel::num_layers();
}

AttentionView DiffusionVit::attention_view() const {
  auto view = EncoderModel::attention_view();
  if (config_.has_adaln()) view.blocks = "blocks";
  view.depth = config_.encoder.vit.depth;
  return view;
}

}  // namespace fovea::models
