// B batch, N tokens, D embed_dim, H heads, K head_dim (D = H * K).
#include "fovea/nn/attention_pool.h"

#include <ATen/ops/empty.h>

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/kernels/attention/attention.h"
#include "fovea/nn/cross_attention.h"
#include "fovea/nn/forward_context.h"

namespace fovea::nn {

AttentionPoolImpl::AttentionPoolImpl(const AttentionPoolOptions& options, at::Device device) {
  FOVEA_CHECK(options.num_heads > 0 && options.dim % options.num_heads == 0,
              "attention pool of width {} with {} heads; expected a width divisible by the heads",
              options.dim, options.num_heads);
  const auto dim = options.dim;
  head_dim_ = dim / options.num_heads;
  latent_ = register_parameter(
      "latent", at::empty({1, 1, dim}, at::TensorOptions().dtype(at::kFloat).device(device)));
  q_ = register_module("q", Linear(dim, dim, /*has_bias=*/true, device));
  kv_ = register_module("kv", Linear(dim, 2 * dim, /*has_bias=*/true, device));
  proj_ = register_module("proj", Linear(dim, dim, /*has_bias=*/true, device));
  norm_ = register_module("norm", Norm(dim, options.norm, device));
  const MlpOptions mlp{.dim = dim,
                       .hidden_dim = static_cast<int64_t>(dim * options.mlp_ratio),
                       .activation = options.activation,
                       .norm = options.norm};
  mlp_ = register_module("mlp", Mlp(mlp, device));
}

at::Tensor AttentionPoolImpl::forward(const at::Tensor& x, const at::Tensor& key_mask) const {
  return run([&] {
    const auto [q, k, v] = cross_heads(latent_, x, q_, kv_, head_dim_);
    const auto scale = 1.0 / std::sqrt(static_cast<double>(head_dim_));
    if (is_recording(path() + ".probs")) {
      record("probs", kernels::attention_probabilities(q, k, scale, key_mask));  // [B, H, 1, N]
    }
    const auto attended = kernels::attention(q, k, v, scale, {}, key_mask);  // [B, H, 1, K]
    const auto y = proj_(attended.transpose(1, 2).flatten(2));               // [B, 1, D]
    return mlp_(norm_->for_linear(y), y).squeeze(1);                         // [B, D]
  });
}

}  // namespace fovea::nn
