// B batch, N tokens, D embed_dim, H heads, K head_dim (D = H * K).
#include "fovea/nn/attention.h"

#include <cmath>

#include "fovea/core/error.h"
#include "fovea/kernels/attention.h"

namespace fovea::nn {

AttentionImpl::AttentionImpl(const AttentionOptions& options, at::Device device)
    : options_(options) {
  FOVEA_CHECK(options.num_heads > 0 && options.dim % options.num_heads == 0,
              "attention of width {} with {} heads; expected a width divisible by the heads",
              options.dim, options.num_heads);
  head_dim_ = options.dim / options.num_heads;
  scale_ = options.scale > 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(head_dim_));
  qkv_ = register_module("qkv", Linear(options.dim, 3 * options.dim, options.qkv_bias, device));
  if (options.qk_norm) {
    q_norm_ = register_module("q_norm", Norm(head_dim_, options.norm, device));
    k_norm_ = register_module("k_norm", Norm(head_dim_, options.norm, device));
  }
  if (options.scale_norm) {
    norm_ = register_module("norm", Norm(options.dim, options.norm, device));
  }
  proj_ = register_module("proj", Linear(options.dim, options.dim, options.proj_bias, device));
}

at::Tensor AttentionImpl::forward(const at::Tensor& x, const at::Tensor& key_mask) {
  return run(
      [this](const at::Tensor& tokens, const at::Tensor& mask) {
        auto y = attend(qkv_(tokens), mask);  // [B, N, D]
        if (norm_) y = norm_(y);
        return dropout(proj_(y), options_.proj_drop_rate, "proj_drop");
      },
      x, key_mask);
}

// qkv: [B, N, 3 D] -> [B, N, D].
at::Tensor AttentionImpl::attend(const at::Tensor& qkv, const at::Tensor& key_mask) {
  const bool drops = is_training() && options_.attn_drop_rate > 0;
  const bool shows_probs = is_recording(path() + ".probs");
  FOVEA_CHECK(qkv.size(-1) % (3 * head_dim_) == 0,
              "{}: {} features of queries, keys and values; expected whole heads of {}", path(),
              qkv.size(-1), head_dim_);
  if (!q_norm_ && !drops && !shows_probs && !key_mask.defined() && !attention_elsewhere) {
    return kernels::self_attention(qkv, qkv.size(-1) / (3 * head_dim_), scale_);
  }
  const auto parts = qkv.unflatten(-1, {3, -1, head_dim_})  // [B, N, 3, H, K]
                         .permute({2, 0, 3, 1, 4});         // [3, B, H, N, K]
  const auto q = q_norm_ ? q_norm_(parts[0]) : parts[0];
  const auto k = k_norm_ ? k_norm_(parts[1]) : parts[1];
  if (attention_elsewhere) {
    FOVEA_CHECK(!drops && !shows_probs, "{}: probabilities whose keys are on several ranks",
                path());
    return attention_elsewhere(q, k, parts[2], scale_, key_mask).transpose(1, 2).flatten(2);
  }
  if (shows_probs) record("probs", kernels::attention_probabilities(q, k, scale_, key_mask));
  std::optional<kernels::AttentionDrop> drop;
  if (drops) drop = kernels::AttentionDrop{options_.attn_drop_rate, drop_key("attn_drop")};
  return kernels::attention(q, k, parts[2], scale_, drop, key_mask).transpose(1, 2).flatten(2);
}

}  // namespace fovea::nn
