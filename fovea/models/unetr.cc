// B batch, C channels, K classes, N tokens, D embed_dim, F feature_size, G grid sides.
#include "fovea/models/unetr.h"

#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_trilinear3d.h>
#include <fmt/ranges.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/nn/init.h"

namespace fovea::models {
namespace {

// Throws ConfigError with every issue of the config.
void check_unetr(const UnetrConfig& config) {
  ConfigIssues issues;
  config.validate(issues);
  std::string message;
  for (const auto& issue : issues.all()) message += "\n  " + issue.first + ": " + issue.second;
  if (!message.empty()) fail<ConfigError>("unetr:{}", message);
}

}  // namespace

Unetr::Unetr(const UnetrConfig& config, at::Device device)
    : EncoderModel(config.encoder, device),
      config_(config),
      patch_(config.encoder.vit.patch_sides()) {
  check_unetr(config);
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

at::Tensor Unetr::forward(const at::Tensor& images) {
  return run([&] {
    const bool has_skips = config_.skip_connection && !config_.linear_decoder;
    const auto blocks = config_.skip_blocks();
    std::vector<at::Tensor> tapped;
    const auto tokens = encoder().encode(  // [B, prefix + N, D]
        encoder().add_prefix(encoder().embed_patches(images)),
        has_skips ? at::IntArrayRef(blocks) : at::IntArrayRef(), &tapped);
    return has_skips ? decode(images, tokens, tapped) : decode_without_skips(images, tokens);
  });
}

// Patch tokens on their grid. tokens: [B, prefix + N, D] -> [B, D, G]; sides: of the images.
at::Tensor Unetr::to_map(const at::Tensor& tokens, at::IntArrayRef sides) const {
  std::vector<int64_t> shape = {tokens.size(0), tokens.size(2)};
  int64_t patches = 1;
  for (size_t i = 0; i < patch_.size(); ++i) {
    shape.push_back(sides[i] / patch_[i]);
    patches *= shape.back();
  }
  const auto prefix = tokens.size(1) - patches;
  return tokens.narrow(1, prefix, patches).transpose(1, 2).reshape(shape);
}

// Interpolated with the corners in place. x: [B, F, any sides] -> [B, F, sides]
at::Tensor Unetr::resized(const at::Tensor& x, at::IntArrayRef sides) const {
  constexpr bool kAlignCorners = true;
  return sides.size() == 3 ? at::upsample_trilinear3d(x, sides, kAlignCorners)
                           : at::upsample_bilinear2d(x, sides, kAlignCorners);
}

at::Tensor Unetr::decode(const at::Tensor& images, const at::Tensor& tokens,
                         const std::vector<at::Tensor>& tapped) {
  const auto sides = images.sizes().slice(2);
  auto x = to_map(tokens, sides);  // [B, D, G]
  for (size_t stage = 0; stage < skips_.size(); ++stage) {
    const auto skip = skips_[stage](to_map(tapped[skips_.size() - 1 - stage], sides));
    x = decoder_[stage](x, skip);  // [B, F << (3 - stage), G * strides so far]
  }
  if (config_.is_resized()) x = resized(x, sides);
  return out_(decoder_.back()(x, encoder1_(encoder().to_all_channels(images))));  // [B, K, sides]
}

at::Tensor Unetr::decode_without_skips(const at::Tensor& images, const at::Tensor& tokens) {
  const auto sides = images.sizes().slice(2);
  if (config_.linear_decoder) return resized(to_map(head_(tokens), sides), sides);
  auto x = to_map(tokens, sides);  // [B, D, G]
  for (auto& upsampling : upsampling_) x = upsampling(x);
  if (config_.is_resized()) x = resized(x, sides);
  return out_(x);  // [B, K, sides]
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
