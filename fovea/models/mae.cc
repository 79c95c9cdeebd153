// B batch, C channels, N patches, n kept ones, D embed_dim, E decoder_embed_dim, P side of a patch.
#include "fovea/models/mae.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/nn/patchify.h"
#include "fovea/nn/pos_embed.h"

namespace fovea::models {
namespace {

const MaeConfig& checked_mae(const MaeConfig& config) {
  check_config("mae", config, "encoder", config.encoder);
  return config;
}

}  // namespace

Mae::Mae(const MaeConfig& config, at::Device device)
    : EncoderModel(checked_mae(config).encoder, device), config_(config) {
  const auto& vit = encoder().config();
  const auto dim = config.linear_decoder ? vit.embed_dim : config.decoder_embed_dim;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  mask_token_ = register_parameter("mask_token", at::empty({1, 1, dim}, options));
  if (!config.linear_decoder) register_transformer(device);
  const auto elements = vit.in_chans * c10::multiply_integers(vit.patch_sides());
  decoder_pred_ =
      register_module("decoder_pred", nn::Linear(dim, elements, /*has_bias=*/true, device));
  nn::assign_names(*this);
}

void Mae::register_transformer(at::Device device) {
  const auto& vit = encoder().config();
  const auto dim = config_.decoder_embed_dim;
  const auto rows = vit.num_prefix_tokens() + c10::multiply_integers(encoder().grid_size());
  if (config_.decoder_pos_embed == "size_and_center") {
    auto sides = vit.img_sides();  // H, W or D, H, W
    std::reverse(sides.begin(), sides.end());
    decoder_adaptive_pos_ = register_module(
        "decoder_adaptive_pos_embed", nn::AdaptivePosEmbed(sides, vit.pos_in_pixels, dim, device));
  } else {
    decoder_pos_embed_ = register_parameter(
        "decoder_pos_embed",
        at::empty({1, rows, dim}, at::TensorOptions().dtype(at::kFloat).device(device)),
        /*requires_grad=*/config_.decoder_pos_embed != "sincos");
  }
  decoder_embed_ = register_module("decoder_embed", nn::Linear(vit.embed_dim, dim, true, device));
  const auto decoder = config_.decoder_vit();
  decoder_blocks_ = {*this, "decoder_blocks", decoder.depth, decoder.drop_path_rate,
                     [&](int64_t i, double rate) {
                       return nn::make_block(block_options(decoder, rate, i), device);
                     }};
  const nn::NormOptions norm{nn::norm_from_name(vit.norm_layer), config_.decoder_norm_eps};
  decoder_norm_ = register_module("decoder_norm", nn::Norm(dim, norm, device));
}

at::Tensor Mae::forward(const ModelInput& input) const {
  // Outside of a training step there is no row of a global batch: that of this batch stands for it.
  const auto key = is_training() ? drop_key("mask")
                                 : kernels::DropKey{philox_key(0, "mask"), 0,
                                                    at::arange(input.tensor().size(0))};
  if (input.has_patches()) {
    return predict(input, see_patches(config_, key, real_patches(input.patches())));
  }
  const auto& images = input.images();
  const auto device = is_training() ? images.device() : at::Device(at::kCPU);
  const auto ids = models::keep_patches(config_, key, num_patches(images), device);
  return nn::unpatchify(predict(input, {ids}), encoder().config().patch_sides(),
                        images.sizes().slice(2));
}

at::Tensor Mae::predict(const ModelInput& input, const SeenPatches& seen) const {
  const auto& given = input.tensor();
  FOVEA_CHECK(seen.ids.dim() == 2 && seen.ids.size(0) == given.size(0),
              "patches to keep of shape [{}] for {} images; expected one row for each",
              fmt::join(seen.ids.sizes(), ", "), given.size(0));
  return run([&] {
    const auto& vit = encoder();
    const auto device = given.device();
    SeenPatches on_device{.ids = seen.ids.to(device)};
    const auto tokens = vit.embed_patches(input);  // [B, N, D]
    const auto kept = tokens.gather(
        1, on_device.ids.unsqueeze(-1).expand({-1, -1, tokens.size(2)}));  // [B, n, D]
    at::Tensor kept_mask;                                                  // [B, prefix + n]
    if (seen.seen.defined()) {
      on_device.seen = seen.seen.to(device);
      const auto prefix =
          at::ones({kept.size(0), vit.config().num_prefix_tokens()}, on_device.seen.options());
      kept_mask = at::cat({prefix, on_device.seen}, 1);
    }
    const auto latent = vit.encode(vit.add_prefix(kept), {}, nullptr, kept_mask);
    const auto decoded =
        input.has_patches()
            ? decode(latent, on_device, tokens.size(1), patch_position(input.patches()),
                     vit.token_mask(input.patches()))
            : decode(latent, on_device, tokens.size(1), grid_position(grid_of(given)),
                     {});  // [B, N, P * P * C]
    return vit.to_batch_channels(decoded, input.channels);
  });
}

// kept: [B, n, E] -> [B, N, E], each token in its place and the mask token everywhere else.
at::Tensor Mae::add_mask_tokens(const at::Tensor& kept, const SeenPatches& seen,
                                int64_t num_patches) const {
  const auto mask_token = mask_token_.to(kept.scalar_type());
  const auto mask_tokens = mask_token.expand({kept.size(0), num_patches, -1});
  const auto placed =
      seen.seen.defined() ? at::where(seen.seen.unsqueeze(-1), kept, mask_token) : kept;
  return mask_tokens.scatter(1, seen.ids.unsqueeze(-1).expand({-1, -1, kept.size(2)}), placed);
}

// -> [1, prefix + N, E]; undefined before a linear decoder.
at::Tensor Mae::grid_position(at::IntArrayRef grid) const {
  if (config_.linear_decoder) return {};
  const auto& vit = encoder().config();
  return nn::resize_pos_embed(decoder_pos_embed_, encoder().grid_size(), grid,
                              vit.num_prefix_tokens(),
                              nn::pos_embed_interp_from_name(vit.pos_embed_interp));
}

// -> [1, prefix + L, E] by the place in the sequence, or [B, prefix + L, E] with zeros for the
// prefix.
at::Tensor Mae::patch_position(const PatchInput& patches) const {
  if (!decoder_adaptive_pos_) return decoder_pos_embed_;
  const auto kind = patches.tokens.scalar_type();
  const auto position =
      decoder_adaptive_pos_(patches.sizes.to(kind), patches.centers.to(kind));  // [B, L, E]
  const auto num_prefix = encoder().config().num_prefix_tokens();
  return at::cat(
      {at::zeros({position.size(0), num_prefix, position.size(2)}, position.options()), position},
      1);
}

// position: [1 or B, prefix + N, E]; mask: [B, prefix + N] bool, tokens that are attended to.
at::Tensor Mae::decode(const at::Tensor& latent, const SeenPatches& seen, int64_t num_patches,
                       const at::Tensor& position, const at::Tensor& mask) const {
  const auto num_prefix = encoder().config().num_prefix_tokens();
  auto x = decoder_embed_ ? decoder_embed_(latent) : latent;  // [B, prefix + n, E]
  const auto prefix = x.narrow(1, 0, num_prefix);
  const auto kept = x.narrow(1, num_prefix, x.size(1) - num_prefix);
  x = add_mask_tokens(kept, seen, num_patches);  // [B, N, E]
  if (!decoder_embed_) return decoder_pred_(x);
  x = at::cat({prefix, x}, 1) + position.to(x.scalar_type());  // [B, prefix + N, E]
  x = decoder_blocks_(x, mask);
  x = decoder_pred_(decoder_norm_->for_linear(x));  // [B, prefix + N, P * P * C]
  return x.narrow(1, num_prefix, num_patches);
}

at::Tensor Mae::keep_patches(int64_t num_patches, at::Device device) const {
  return models::keep_patches(config_, drop_key("mask"), num_patches, device);
}

std::vector<int64_t> Mae::grid_of(const at::Tensor& images) const {
  const auto patch = encoder().config().patch_sides();
  auto grid = images.sizes().slice(2).vec();
  FOVEA_CHECK(grid.size() == patch.size(), "images of shape [{}]; expected [B, C] and {} sides",
              fmt::join(images.sizes(), ", "), patch.size());
  for (size_t i = 0; i < grid.size(); ++i) grid[i] /= patch[i];
  return grid;
}

int64_t Mae::num_patches(const at::Tensor& images) const {
  return c10::multiply_integers(grid_of(images));
}

void Mae::init_parameter(const std::string& name, const at::Tensor& value, uint64_t seed) const {
  if (name != "decoder_pos_embed" || !config_.decoder_pos_embed.starts_with("sincos")) {
    return EncoderModel::init_parameter(name, value, seed);
  }
  const at::NoGradGuard no_grad;
  value.copy_(nn::sincos_pos_embed(encoder().grid_size(), config_.decoder_embed_dim,
                                   encoder().config().num_prefix_tokens()));
}

nn::ParameterInit Mae::own_init(const std::string& name, at::IntArrayRef shape) const {
  if (name == "mask_token" || name == "decoder_pos_embed") return {nn::InitRule::normal(0.02)};
  const auto& vit = encoder().config();
  return nn::vit_init(name, shape,
                      {.scheme = nn::init_scheme_from_name(vit.weight_init),
                       .packed_gate = vit.mlp_layer == "swiglu_packed",
                       .layer_scale = vit.init_values.value_or(1.0),
                       .scale_by_depth = vit.fix_init});
}

kernels::Recordable Mae::can_be_recorded() const {
  if (takes_patches()) {
    return {"the host counts the real ones of adaptive patches to be masked"};
  }
  return EncoderModel::can_be_recorded();
}

std::vector<std::string> Mae::own_no_weight_decay() const {
  if (!decoder_pos_embed_.defined()) return {"mask_token"};
  return {"mask_token", "decoder_pos_embed"};
}

at::Tensor Mae::adapt_parameter(const std::string& name, const at::Tensor& saved) const {
  if (name != "decoder_pos_embed") return EncoderModel::adapt_parameter(name, saved);
  const auto& vit = encoder().config();
  if (vit.is_adaptive()) return {};  // no grid
  return nn::adapt_pos_embed(saved, encoder().grid_size(), vit.num_prefix_tokens(),
                             nn::pos_embed_interp_from_name(vit.pos_embed_interp));
}

at::Tensor keep_patches(const MaeConfig& config, const kernels::DropKey& key, int64_t num_patches,
                        at::Device device) {
  return kernels::patch_keep_indices(key, num_patches, config.num_kept(num_patches),
                                     /*ordered=*/true, device);
}

SeenPatches see_patches(const MaeConfig& config, const kernels::DropKey& key,
                        const at::Tensor& is_real) {
  const auto real = is_real.to(at::kCPU);  // [B, L]
  const auto length = real.size(1);
  const auto num_kept = config.num_kept(length);
  // A random order of all patches in which the real ones come first.
  const auto shuffled = kernels::patch_keep_indices(key, length, length, /*ordered=*/false);
  const auto real_first = real.gather(1, shuffled)
                              .to(at::kInt)
                              .argsort(
                                  /*stable=*/true, /*dim=*/1, /*descending=*/true);
  SeenPatches seen{.ids = shuffled.gather(1, real_first).narrow(1, 0, num_kept).contiguous(),
                   .seen = {}};
  if (real.all().item<bool>()) return seen;
  const auto counts = real.sum(1);  // [B]
  std::vector<int64_t> seen_counts;
  for (int64_t b = 0; b < counts.size(0); ++b) {
    seen_counts.push_back(std::max<int64_t>(1, config.num_kept(counts[b].item<int64_t>())));
  }
  seen.seen = at::arange(num_kept).unsqueeze(0).lt(at::tensor(seen_counts).unsqueeze(1));
  return seen;
}

at::Tensor patch_mask(const SeenPatches& seen, const at::Tensor& is_real) {
  const auto ids = seen.ids.to(is_real.device());
  const auto masked = is_real.to(at::kFloat);  // [B, L]
  auto left = at::zeros(ids.sizes(), masked.options());
  if (seen.seen.defined()) {
    left = masked.gather(1, ids) * seen.seen.to(is_real.device()).logical_not().to(at::kFloat);
  }
  return masked.scatter(1, ids, left);
}

at::Tensor patch_mask(const at::Tensor& ids_keep, int64_t num_patches) {
  const auto masked =
      at::ones({ids_keep.size(0), num_patches}, ids_keep.options().dtype(at::kFloat));
  return masked.scatter(1, ids_keep, 0.0);
}

}  // namespace fovea::models
