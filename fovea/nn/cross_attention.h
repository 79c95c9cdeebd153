// Attention from queries of one sequence to keys and values of another.
#pragma once

#include "fovea/nn/linear.h"

namespace fovea::nn {

// Heads for kernels::attention: q [B, H, M, K], k and v [B, H, N, K].
struct CrossHeads {
  at::Tensor q, k, v;
};

// query: [1, M, D], one for all samples and projected once; x: [B, N, D]; q: [D, D]; kv: [2 D, D],
// keys before values, each by head. D = H * head_dim.
CrossHeads cross_heads(const at::Tensor& query, const at::Tensor& x, const Linear& q,
                       const Linear& kv, int64_t head_dim);

}  // namespace fovea::nn
