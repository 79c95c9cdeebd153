// Self-attention of one head of one sample on AMX: products of bfloat16 with sums in float32,
// softmax in float32. Rows are read and written where they lie. N tokens, K head_dim.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/bfloat16_attention_head.h"

namespace fovea::kernels::cpu {

// Working memory of one thread. Panels, steps and blocks: see Note [Tiles] in amx.h. n panels of
// tokens, k panels of head_dim.
struct AmxAttentionScratch {
  AlignedBuffer<uint16_t> lines;    // [k, step]: 32 tokens as first factor
  AlignedBuffer<uint16_t> columns;  // [2, n, k, step]: tokens side by side, as second factor
  AlignedBuffer<uint16_t> rows;     // [3, k, n, step]: tokens in depth, as second factor
  AlignedBuffer<float> scores;      // [2, n, block]: of 32 tokens with all
  AlignedBuffer<uint16_t> rounded;  // [2, n, step]
  AlignedBuffer<uint16_t> dscores;  // [n, n, step]: dS, queries as lines
  AlignedBuffer<float> out;         // [block]
  AlignedBuffer<float> log_sums, row_sums;  // [n, 32]
};

// As bfloat16_attention_forward. Both need has_amx(), and a TileScope around them.
void amx_attention_forward(AmxAttentionScratch& scratch, const QkvRows& qkv, int64_t N, int64_t K,
                           float scale, OutRows out, float* log_sums);

// As bfloat16_attention_backward, from what forward has left in `out` too: the sums over keys of
// probabilities times their gradients are those over head_dim of out and its gradient, so one pass
// over the scores is enough (Dao et al., "FlashAttention", 2022).
void amx_attention_backward(AmxAttentionScratch& scratch, const QkvRows& qkv, InRows out,
                            InRows dout, const float* log_sums, int64_t N, int64_t K, float scale,
                            const QkvGradientRows& gradients);

}  // namespace fovea::kernels::cpu
