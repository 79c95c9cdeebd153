// The heads of a batch whose q, k and v lie side by side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::kernels {

// B batch, N tokens, H heads, K head_dim.
struct AttentionHeads {
  int64_t B, N, H, K;

  // qkv: [B, N, 3 H K].
  AttentionHeads(const at::Tensor& qkv, int64_t num_heads)
      : B(qkv.size(0)), N(qkv.size(1)), H(num_heads), K(qkv.size(2) / (3 * num_heads)) {}

  // Head number `head` of all samples' in a [B, N, parts H K] tensor: its first element in part
  // number `which`, and how far its rows are apart.
  int64_t first(int64_t head, int64_t which, int64_t parts) const {
    return (head / H) * N * stride(parts) + which * H * K + (head % H) * K;
  }
  int64_t stride(int64_t parts) const { return parts * H * K; }

  // Of `products` products of [N, K] and [K, N], or of [N, N] and [N, K].
  double flops(int products) const {
    return 2.0 * products * static_cast<double>(B * H * N) * static_cast<double>(N * K);
  }
};

}  // namespace fovea::kernels
