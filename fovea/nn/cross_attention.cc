// B batch, M queries, N tokens, D width, H heads, K head_dim (D = H * K).
#include "fovea/nn/cross_attention.h"

namespace fovea::nn {

CrossHeads cross_heads(const at::Tensor& query, const at::Tensor& x, const Linear& q,
                       const Linear& kv, int64_t head_dim) {
  const auto queries = q(query.to(x.scalar_type()))
                           .unflatten(-1, {-1, head_dim})     // [1, M, H, K]
                           .transpose(1, 2)                   // [1, H, M, K]
                           .expand({x.size(0), -1, -1, -1});  // [B, H, M, K]
  const auto keys_and_values = kv(x)
                                   .unflatten(-1, {2, -1, head_dim})  // [B, N, 2, H, K]
                                   .permute({2, 0, 3, 1, 4})          // [2, B, H, N, K]
                                   .unbind(0);
  return {queries, keys_and_values[0], keys_and_values[1]};
}

}  // namespace fovea::nn
