// B batch, N tokens, D embed_dim, H heads, K head_dim (D = H * K).
#include "fovea/nn/attention.h"

#include <ATen/ops/cat.h>

#include <cmath>
#include <optional>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/kernels/attention.h"
#include "fovea/nn/replay_scope.h"

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

at::Tensor AttentionImpl::forward(const at::Tensor& x, const at::Tensor& key_mask,
                                  const at::Tensor& offsets, const at::Tensor& residual) {
  return run_onto(
      residual,
      [this](const at::Tensor& tokens, const at::Tensor& mask, const at::Tensor& starts,
             const at::Tensor& added) {
        FOVEA_CHECK(!starts.defined() || !mask.defined(), "{}: samples in a row and a mask",
                    path());
        auto y = starts.defined()
                     ? attend_packed(qkv_(tokens), {starts.const_data_ptr<int64_t>(),
                                                    static_cast<size_t>(starts.numel())})
                     : attend(qkv_(tokens), mask);  // [B, N, D]
        if (norm_) y = norm_(y);
        const bool drops = is_training() && options_.proj_drop_rate > 0;
        if (!drops) return proj_(y, std::nullopt, added);
        return onto(added, dropout(proj_(y), options_.proj_drop_rate, "proj_drop"));
      },
      x, key_mask, offsets);
}

// Whether q, k and v go into the kernel as they are, and nothing happens to the probabilities.
bool AttentionImpl::is_plain() const {
  const bool drops = is_training() && options_.attn_drop_rate > 0;
  return !q_norm_ && !drops && !is_recording(path() + ".probs") && !attention_elsewhere;
}

int64_t AttentionImpl::heads_of(const at::Tensor& qkv) const {
  FOVEA_CHECK(qkv.size(-1) % (3 * head_dim_) == 0,
              "{}: {} features of queries, keys and values; expected whole heads of {}", path(),
              qkv.size(-1), head_dim_);
  return qkv.size(-1) / (3 * head_dim_);
}

// qkv: [1, T, 3 D] -> [1, T, D].
at::Tensor AttentionImpl::attend_packed(const at::Tensor& qkv, at::IntArrayRef offsets) {
  FOVEA_CHECK(!attention_elsewhere, "{}: samples in a row whose tokens are on several ranks",
              path());
  if (is_plain()) return kernels::packed_self_attention(qkv, heads_of(qkv), scale_, offsets);
  const auto step = current_step();
  std::vector<at::Tensor> outs;
  std::vector<int64_t> lengths;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) lengths.push_back(offsets[b + 1] - offsets[b]);
  for (const auto& one : qkv.split_with_sizes(lengths, 1)) {
    std::optional<StepScope> row;
    const auto b = static_cast<int64_t>(outs.size());
    if (step) row.emplace(step->seed, step->step, step->rows.narrow(0, b, 1));
    outs.push_back(attend(one, {}));  // [1, N, D]
  }
  return at::cat(outs, 1);
}

// qkv: [B, N, 3 D] -> [B, N, D].
at::Tensor AttentionImpl::attend(const at::Tensor& qkv, const at::Tensor& key_mask) {
  const bool drops = is_training() && options_.attn_drop_rate > 0;
  const bool shows_probs = is_recording(path() + ".probs");
  const auto num_heads = heads_of(qkv);
  if (is_plain() && !key_mask.defined()) return kernels::self_attention(qkv, num_heads, scale_);
  const auto parts = qkv.unflatten(-1, {3, -1, head_dim_})  // [B, N, 3, H, K]
                         .permute({2, 0, 3, 1, 4})          // [3, B, H, N, K]
                         .unbind(0);  // one gradient of all three, where parts[i] has three
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
