// Attention whose keys come in parts: one part at a time, and what a part adds to the gradients.
//
// B batch, H heads, N queries, M keys of the part, K head_dim.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// Softmax over the keys of a part alone, times its values; parts are joined by their log_sum.
struct PartialAttention {
  at::Tensor out;      // [B, H, N, K]; zeros for a sample without a key in this part
  at::Tensor log_sum;  // [B, H, N] float32, or float64 of such q: log(sum(exp(scores))); -inf there
};

// q: [B, H, N, K], k and v: [B, H, M, K], M > 0. key_mask: [B, M] bool, false for keys that nobody
// attends to; undefined: all are attended to. No autograd.
PartialAttention partial_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   double scale, const at::Tensor& key_mask = {});

struct AttentionGradients {
  at::Tensor q, k, v;  // of the shapes of q, k and v
};

// What the keys of a part add to dq, and all of dk and dv. out and log_sum: of all parts together.
AttentionGradients partial_attention_backward(const at::Tensor& gradient, const at::Tensor& q,
                                              const at::Tensor& k, const at::Tensor& v,
                                              const at::Tensor& out, const at::Tensor& log_sum,
                                              double scale, const at::Tensor& key_mask = {});

}  // namespace fovea::kernels
