// Self-attention where the processor multiplies bfloat16: what self_attention takes there.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// qkv: [B, N, 3 D]. Whether the function below is for it.
bool has_bfloat16_self_attention(const at::Tensor& qkv, int64_t num_heads);

// As self_attention. Probabilities and gradients of scores are rounded to bfloat16 before they are
// multiplied, sums are float32. A head is one thread's.
at::Tensor bfloat16_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale);

}  // namespace fovea::kernels
