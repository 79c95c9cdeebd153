// Self-attention of one head of one sample on panels: products of bfloat16 with sums in float32,
// softmax in float32. Rows are read and written where they lie. N tokens, K head_dim.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/panels.h"

namespace fovea::kernels::cpu {

// A matrix [N, K] inside a larger one: its rows are `stride` values apart.
struct InRows {
  const uint16_t* data;
  int64_t stride;
  // How many values further on lie those that the thread works on next, which it asks memory for
  // meanwhile; 0: nothing.
  int64_t next = 0;
};
struct OutRows {
  uint16_t* data;
  int64_t stride;
};

struct QkvRows {
  InRows q, k, v;
};
struct QkvGradientRows {
  OutRows q, k, v;
};

// Working memory of one thread. Panels, steps and blocks: see Note [Panels] in panels.h. n panels
// of tokens, k panels of head_dim.
struct PanelAttentionScratch {
  AlignedBuffer<uint16_t> lines;    // [2, k, step]: 32 tokens as first factor
  AlignedBuffer<uint16_t> columns;  // [2, n, k, step]: tokens side by side, as second factor
  AlignedBuffer<uint16_t> rows;     // [3, k, n, step]: tokens in depth, as second factor
  AlignedBuffer<float> scores;      // [2, n, block]: of some of them with all
  AlignedBuffer<uint16_t> rounded;  // [2, n, step]
  AlignedBuffer<uint16_t> dscores;  // [n, n, step]: dS, queries as lines
  AlignedBuffer<float> out;         // [block]
  AlignedBuffer<float> log_sums, row_sums;  // [n, 32]
};

// Part `index` of `count` of a head's queries, whole panels of them.
struct QueryPart {
  int64_t index = 0, count = 1;
};

// out = softmax(q k^T scale) v, and log_sums[n] = log(sum_m exp(q_n k_m scale)), unless that is
// null: a backward pass alone needs it. Of the part's queries, whose bits do not depend on what
// part they belong to. Both functions need has_panel_products().
void panel_attention_forward(const PanelScope& scope, PanelAttentionScratch& scratch,
                             const QkvRows& qkv, const QueryPart& part, int64_t N, int64_t K,
                             float scale, OutRows out, float* log_sums);

// From `out` and log_sums as forward has left them: the sums over keys of
// probabilities times their gradients are those over head_dim of out and its gradient, so one pass
// over the scores is enough (Dao et al., "FlashAttention", 2022).
void panel_attention_backward(const PanelScope& scope, PanelAttentionScratch& scratch,
                              const QkvRows& qkv, InRows out, InRows dout, const float* log_sums,
                              int64_t N, int64_t K, float scale, const QkvGradientRows& gradients);

}  // namespace fovea::kernels::cpu
