// B batch, L patches, S values of a patch, K classes, D embed_dim, E decoder_dim.
#include "fovea/models/sap.h"

#include <ATen/ops/empty.h>

#include <functional>
#include <numeric>

#include "fovea/core/error.h"
#include "fovea/kernels/linear/linear.h"

namespace fovea::models {

void SapConfig::validate(ConfigIssues& issues) const {
  if (encoder.vit.is_adaptive()) return;
  issues.add("encoder", {"encoder.patching"},
             fmt::format("encoder.patching is {}; expected adaptive: a model for patches "
                         "on a grid is unetr",
                         encoder.vit.patching));
}

SapHeadImpl::SapHeadImpl(int64_t embed_dim, int64_t decoder_dim, int64_t num_classes,
                         at::Device device)
    : embed_dim_(embed_dim) {
  const auto options = at::TensorOptions().dtype(at::kFloat).device(device);
  weight_ = register_parameter("weight", at::empty({num_classes, decoder_dim}, options));
  bias_ = register_parameter("bias", at::empty({num_classes}, options));
}

at::Tensor SapHeadImpl::forward(const at::Tensor& x, const at::Tensor& up) const {
  return run([&] {
    const auto classes = weight_.matmul(up.flatten(1)).view({-1, x.size(2)});  // [K S, D]
    const auto logits =
        kernels::linear(x, classes.to(x.scalar_type()), at::Tensor());  // [B, L, K S]
    return logits.unflatten(-1, {weight_.size(0), -1}).transpose(1, 2) +
           bias_.to(x.scalar_type()).view({1, -1, 1, 1});  // [B, K, L, S]
  });
}

Sap::Sap(const SapConfig& config, at::Device device)
    : EncoderModel(config.encoder, device), config_(config) {
  const auto& vit = encoder().config();
  if (!vit.is_adaptive()) fail<ConfigError>("sap: encoder.patching is grid; expected adaptive");
  const auto patch = vit.patch_sides();
  const auto values = std::accumulate(patch.begin(), patch.end(), int64_t{1}, std::multiplies<>());
  up_ = register_parameter("up", at::empty({config.decoder_dim, values, vit.embed_dim},
                                           at::TensorOptions().dtype(at::kFloat).device(device)));
  head_ = register_module("head",
                          SapHead(vit.embed_dim, config.decoder_dim, config.num_classes, device));
  nn::assign_names(*this);
}

at::Tensor Sap::forward(const ModelInput& input) const {
  return run([&] {
    const auto& vit = encoder();
    auto x = vit.encode(vit.embed_tokens(input), {}, nullptr, vit.token_mask(input.patches()));
    x = x.narrow(1, vit.config().num_prefix_tokens(),
                 config_.encoder.vit.fixed_length);  // [B, L, D]
    return head_(x, up_);                            // [B, K, L, S]
  });
}

nn::ParameterInit Sap::own_init(const std::string& name, at::IntArrayRef shape) const {
  if (name == "up") return {nn::InitRule::truncated_normal(0.02)};
  return nn::vit_init(name, shape, {});
}

}  // namespace fovea::models
