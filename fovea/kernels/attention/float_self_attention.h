// Self-attention in float32, of float32 or bfloat16: what self_attention takes on a CPU where
// bfloat16 is not multiplied.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fovea::kernels {

// As self_attention, within each of the sequences at `offsets`, of num_queries (AttentionHeads).
// Rows of bfloat16 are read as float32. Each sum is taken in one order, whatever the number of
// threads.
at::Tensor float_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                const std::vector<int64_t>& offsets, int64_t num_queries);

}  // namespace fovea::kernels
