// Self-attention on a GPU out of the packed projection of queries, keys and values.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// As self_attention: qkv: [B, N, 3 D] -> [B, N, D] by gpu_attention. The gradients of q, k and v
// are written once, into that of qkv, with its sums over rows (hang_row_sums), which are the
// gradient of a bias that was added to qkv.
at::Tensor gpu_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                              bool runs_again);

// The gradients of q, k and v, [B, H, N, K] each -> that of qkv, [B, N, 3 H K].
at::Tensor join_gradients(const at::Tensor& dq, const at::Tensor& dk, const at::Tensor& dv);

}  // namespace fovea::kernels
