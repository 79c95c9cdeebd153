// Attention on a GPU, by one of libtorch's kernels.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "fovea/kernels/attention/attention_choice.h"

namespace fovea::kernels {

// softmax(q k^T * scale + mask) v by the kernel that attention_choice() names; kAuto: the fastest
// of attention_table(), which measures it where the shape is new. While a CUDA graph is captured
// nothing is measured, and a shape that is new then runs as libtorch has it. q: [B, H, N, K], k and
// v: [B, H, M, K], mask: [B, 1 or H, N, M] -> [B, H, N, K].
at::Tensor gpu_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const std::optional<at::Tensor>& mask, double scale,
                         bool runs_again = false);

// Whether packed_gpu_attention is for heads of K of a dtype.
bool takes_packed_attention(at::ScalarType dtype, int64_t head_dim, AttentionChoice choice);

// As packed_self_attention, in one launch of FlashAttention for all sequences. qkv: [1, T, 3 H K],
// offsets: [S + 1] -> [1, T, H K].
at::Tensor packed_gpu_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                const std::vector<int64_t>& offsets);

}  // namespace fovea::kernels
