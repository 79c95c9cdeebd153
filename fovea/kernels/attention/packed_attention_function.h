// The autograd Function of self-attention on q, k and v side by side, whatever computes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "fovea/kernels/attention/attention_heads.h"
#include "fovea/kernels/saved_activation.h"
#include "fovea/kernels/work_scope.h"

namespace fovea::kernels {

struct PackedAttention {
  at::Tensor out;                         // [B, Q, D]
  torch::autograd::variable_list kept{};  // for the backward pass, besides qkv and out
};

// Heads: AttentionHeads with
//   kForward, kBackward: the names of its work
//   PackedAttention forward(const at::Tensor& qkv, double scale) const
//   at::Tensor backward(const at::Tensor& dout, const at::Tensor& qkv, const PackedAttention& made,
//                       double scale) const, of qkv's shape
// where qkv [B, N, 3 D] and dout [B, Q, D] are contiguous, and in backward qkv and made.out as
// save_activation has left them. num_queries: see AttentionHeads; Heads that are never given any
// need not heed it.
template <class Heads>
class PackedAttentionFunction : public SavingFunction<PackedAttentionFunction<Heads>> {
 public:
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static at::Tensor forward(Context* ctx, const at::Tensor& qkv_in, int64_t num_heads, double scale,
                            const std::vector<int64_t>& offsets, int64_t num_queries) {
    const auto qkv = qkv_in.contiguous();
    const Heads heads(qkv, num_heads, offsets, num_queries);
    const WorkScope work(Heads::kForward, heads.flops(2), bytes_of({qkv}) / 3 * 4);
    const PackedAttention made = heads.forward(qkv, scale);
    if (ctx == nullptr) return made.out;
    Variables saved = {save_activation(qkv), save_activation(made.out)};
    saved.insert(saved.end(), made.kept.begin(), made.kept.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["num_heads"] = num_heads;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["num_queries"] = num_queries;
    return made.out;
  }

  static Variables backward(Context* ctx, const Variables& gradients) {
    const auto saved = ctx->get_saved_variables();
    const auto& qkv = saved[0];
    const PackedAttention made{saved[1], Variables(saved.begin() + 2, saved.end())};
    const auto dout = gradients[0].contiguous();
    const Heads heads(qkv, ctx->saved_data["num_heads"].toInt(),
                      ctx->saved_data["offsets"].toIntVector(),
                      ctx->saved_data["num_queries"].toInt());
    // As backward is counted everywhere: twice the forward pass. Scores are computed again on top.
    const WorkScope work(Heads::kBackward, heads.flops(4), bytes_of({qkv}) / 3 * 7);
    const auto scale = ctx->saved_data["scale"].toDouble();
    Variables found(5);  // one for each argument of forward
    found[0] = heads.backward(dout, qkv, made, scale);
    return found;
  }
};

}  // namespace fovea::kernels
