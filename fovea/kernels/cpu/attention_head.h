// Self-attention of one head of one sequence on the CPU, in float32, free of tensors: N tokens, K
// head_dim. Works on blocks of queries and keys whose scores stay in the caches, so that memory
// grows with N alone (Dao et al., "FlashAttention", 2022).
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/attention_rows.h"

namespace fovea::kernels::cpu {

// Working memory of one thread. Kp: K in whole vectors, Np: N in whole strips; strips: see
// small_product.inc.
struct AttentionScratch {
  AlignedBuffer<float> columns;  // [2, strips of Np, K]: tokens side by side
  AlignedBuffer<float> rows;     // [strips of Kp, N]: tokens in depth
  AlignedBuffer<float> block;    // of a block of queries
  AlignedBuffer<float> dk, dv;   // [N, Kp]
};

// out = softmax(q k^T scale) v of the queries [begin, end), and log_sums[n] = log2(sum_m exp(q_n
// k_m scale)) of those, unless it is null. A query gives the same bits in whatever range it is.
void attention_head_forward(AttentionScratch& scratch, const QkvOfHead<InRowsOfHead>& qkv,
                            int64_t N, int64_t K, float scale, int64_t begin, int64_t end,
                            const OutRowsOfHead& out, float* log_sums);

// The gradients of q, k and v, from `out` and log_sums as forward has left them for the first Q
// queries; the others had no part. Probabilities are computed again; the sums over keys of them
// times their gradients are those over head_dim of out and its gradient (Dao et al. 2022, appendix
// B.2).
void attention_head_backward(AttentionScratch& scratch, const QkvOfHead<InRowsOfHead>& qkv,
                             const InRowsOfHead& out, const InRowsOfHead& dout,
                             const float* log_sums, int64_t N, int64_t Q, int64_t K, float scale,
                             const QkvOfHead<OutRowsOfHead>& gradients);

}  // namespace fovea::kernels::cpu
