// Self-attention where the processor multiplies bfloat16: what self_attention takes there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fovea::kernels {

// As self_attention, within each of the sequences at `offsets` (AttentionHeads). Probabilities and
// gradients of scores are rounded to bfloat16 before they are multiplied, sums are float32. A head
// is one thread's.
at::Tensor bfloat16_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                   const std::vector<int64_t>& offsets);

}  // namespace fovea::kernels
