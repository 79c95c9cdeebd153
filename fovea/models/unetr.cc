// B batch, C channels, K classes, N tokens, D embed_dim, F feature_size, G grid sides.
#include "fovea/models/unetr.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <fmt/ranges.h>

#include <cmath>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"
#include "fovea/nn/init.h"
#include "fovea/nn/leaf_map.h"

namespace fovea::models {
namespace {

// Row by row. tokens: [B, n, D] -> [B, D, grid]
at::Tensor laid_out(const at::Tensor& tokens, const std::vector<int64_t>& grid) {
  std::vector<int64_t> shape = {tokens.size(0), tokens.size(2)};
  shape.insert(shape.end(), grid.begin(), grid.end());
  return tokens.transpose(1, 2).reshape(shape);
}

}  // namespace

Unetr::Unetr(const UnetrConfig& config, at::Device device)
    : EncoderModel(config.encoder, device),
      config_(config),
      patch_(config.encoder.vit.patch_sides()) {
  check_config("unetr", config);
  if (config.linear_decoder) {
    head_ = register_module(
        "head", nn::Linear(config.encoder.vit.embed_dim, config.num_classes, true, device));
  } else {
    if (config.skip_connection) register_skips(device);
    register_decoder(device);
  }
  nn::assign_names(*this);
}

void Unetr::register_skips(at::Device device) {
  const auto& vit = config_.encoder.vit;
  const auto strides = config_.strides();
  const nn::UnetBlockOptions image{.spatial_dims = static_cast<int64_t>(patch_.size()),
                                   .in_chans = vit.in_chans,
                                   .out_chans = config_.feature_size,
                                   .is_residual = config_.res_block};
  encoder1_ = register_module("encoder1", nn::UnetrBasicBlock(image, device));
  for (int64_t stage = 2; stage >= 0; --stage) {  // MONAI's order: encoder2, encoder3, encoder4
    auto options = image;
    options.in_chans = vit.embed_dim;
    options.out_chans = config_.feature_size << (3 - stage);
    const std::vector<std::vector<int64_t>> up(strides.begin(), strides.begin() + stage + 1);
    skips_[static_cast<size_t>(stage)] =
        register_module("encoder" + std::to_string(4 - stage),
                        nn::UnetrPrUpBlock(options, up, config_.conv_block, device));
  }
}

void Unetr::register_decoder(at::Device device) {
  const auto strides = config_.strides();
  nn::UnetBlockOptions options{.spatial_dims = static_cast<int64_t>(patch_.size()),
                               .in_chans = config_.encoder.vit.embed_dim,
                               .out_chans = 0,
                               .is_residual = config_.res_block};
  for (size_t stage = 0; stage < decoder_.size(); ++stage) {
    const auto name = "decoder" + std::to_string(5 - stage);
    options.out_chans = config_.feature_size << (3 - stage);
    if (config_.skip_connection) {
      decoder_[stage] = register_module(name, nn::UnetrUpBlock(options, strides[stage], device));
    } else {
      const auto block = register_module(name, std::make_shared<torch::nn::Module>());
      upsampling_[stage] = block->register_module(
          "transp_conv", nn::Conv(nn::ConvOptions{.in_chans = options.in_chans,
                                                  .out_chans = options.out_chans,
                                                  .kernel_size = strides[stage],
                                                  .is_transposed = true},
                                  device));
    }
    options.in_chans = options.out_chans;
  }
  options.out_chans = config_.num_classes;
  out_ = register_module("out", nn::UnetOutBlock(options, device));
}

at::Tensor Unetr::forward(const ModelInput& input) const {
  return run([&] {
    if (!takes_patches()) {
      const auto& images = input.images();
      const auto embedded = encoder().embed_patches(input);  // [B, n, D]
      return segment({images, input.channels}, embedded, {}, map_of(images.sizes().slice(2)));
    }
    const auto& patches = input.patches();
    const auto to_map = map_of(patches);
    return segment({patches.images, input.channels}, encoder().embed_patches(input),
                   encoder().token_mask(patches), to_map);
  });
}

// patches: [B, n, D], embedded; mask: see Vit::token_mask. -> [B, K, sides]
at::Tensor Unetr::segment(const NamedImages& images, const at::Tensor& patches,
                          const at::Tensor& mask, const ToMap& to_map) const {
  const bool has_skips = config_.skip_connection && !config_.linear_decoder;
  const auto blocks = config_.skip_blocks();
  std::vector<at::Tensor> tapped;
  const auto tokens = encoder().encode(  // [B, prefix + n, D]
      encoder().add_prefix(patches), has_skips ? at::IntArrayRef(blocks) : at::IntArrayRef(),
      &tapped, mask);
  const auto on_map = [&](const at::Tensor& all) {
    return to_map(all.narrow(1, all.size(1) - patches.size(1), patches.size(1)));
  };
  const auto sides = images.values.sizes().slice(2);
  if (config_.linear_decoder) return resized(on_map(head_(tokens)), sides);
  if (!has_skips) return upsample(on_map(tokens), sides);
  for (auto& features : tapped) features = on_map(features);
  return decode(images, on_map(tokens), tapped);
}

// On the grid of patches that images of these sides have.
Unetr::ToMap Unetr::map_of(at::IntArrayRef sides) const {
  std::vector<int64_t> grid;
  for (size_t i = 0; i < patch_.size(); ++i) grid.push_back(sides[i] / patch_[i]);
  return [grid](const at::Tensor& tokens) { return laid_out(tokens, grid); };
}

kernels::Recordable Unetr::can_be_recorded() const {
  if (takes_patches() && !config_.is_sequence_map()) {
    return {"the host makes a map of leaves for each batch"};
  }
  return EncoderModel::can_be_recorded();
}

Unetr::ToMap Unetr::map_of(const PatchInput& patches) const {
  const auto expected = encoder().config().img_sides();
  if (!patches.images.defined() || patches.images.sizes().slice(2) != at::IntArrayRef(expected)) {
    fail<ConfigError>(
        "unetr: adaptive patches of {}; expected [B, C, {}], encoder.img_size: crop or resize "
        "them, or cut them with data.tiling",
        patches.images.defined()
            ? fmt::format("images of shape [{}]", fmt::join(patches.images.sizes(), ", "))
            : std::string("no images"),
        fmt::join(expected, ", "));
  }
  if (config_.is_sequence_map()) {
    const auto is_real = real_patches(patches).unsqueeze(-1);  // [B, L, 1]
    return [is_real, grid = config_.sequence_sides()](const at::Tensor& tokens) {
      return laid_out(tokens * is_real.to(tokens.scalar_type()), grid);
    };
  }
  std::vector<int64_t> grid;
  for (size_t i = 0; i < patch_.size(); ++i) grid.push_back(expected[i] / patch_[i]);
  if (patches.leaf_shares.defined()) {
    return [grid, shares = patches.leaf_shares](const at::Tensor& tokens) {
      return laid_out(at::matmul(shares.to(tokens.scalar_type()), tokens), grid);
    };
  }
  if (!patches.boxes.defined() || patches.boxes.size(1) != 1) {
    fail<ConfigError>(
        "unetr: adaptive_map: image with {} trees a sample; expected one: set "
        "data.adaptive_patching.separate_channels to false, or adaptive_map: sequence",
        patches.boxes.defined() ? patches.boxes.size(1) : 0);
  }
  const auto cells = nn::to_device(nn::cells_of_leaves(patches.boxes.select(1, 0), grid, patch_),
                                   patches.tokens.device());
  return [cells](const at::Tensor& tokens) { return nn::tokens_on_cells(tokens, cells); };
}

// Interpolated with the corners in place. x: [B, F, any sides] -> [B, F, sides]
at::Tensor Unetr::resized(const at::Tensor& x, at::IntArrayRef sides) const {
  constexpr bool kAlignCorners = true;
  return sides.size() == 3 ? at::upsample_trilinear3d(x, sides, kAlignCorners)
                           : at::upsample_bilinear2d(x, sides, kAlignCorners);
}

at::Tensor Unetr::decode(const NamedImages& images, const at::Tensor& x,
                         const std::vector<at::Tensor>& tapped) const {
  auto decoded = x;
  for (size_t stage = 0; stage < skips_.size(); ++stage) {
    const auto skip = skips_[stage](tapped[skips_.size() - 1 - stage]);
    decoded = decoder_[stage](decoded, skip);  // [B, F << (3 - stage), G * strides so far]
  }
  if (config_.is_resized()) decoded = resized(decoded, images.values.sizes().slice(2));
  return out_(decoder_.back()(
      decoded, encoder1_(encoder().to_all_channels(images.values, images.channels))));
}

// Without skip connections. x: [B, D, G] -> [B, K, sides]
at::Tensor Unetr::upsample(const at::Tensor& x, at::IntArrayRef sides) const {
  auto features = x;
  for (auto& upsampling : upsampling_) features = upsampling(features);
  if (config_.is_resized()) features = resized(features, sides);
  return out_(features);
}

// torch's default for convolutions: uniform within 1 / sqrt(inputs of an output), where a
// transposed weight's second dimension counts as the inputs.
nn::ParameterInit Unetr::own_init(const std::string& name, at::IntArrayRef shape) const {
  if (name == "head.bias") return {nn::InitRule::constant(0)};
  const auto inputs =
      name.ends_with(".bias") ? config_.feature_size : c10::multiply_integers(shape.slice(1));
  return {nn::InitRule::uniform(1.0 / std::sqrt(static_cast<double>(inputs)))};
}

}  // namespace fovea::models
