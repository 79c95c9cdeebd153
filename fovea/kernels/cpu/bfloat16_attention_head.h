// Self-attention of one head of one sample on CPUs that multiply bfloat16: products of bfloat16
// with sums in float32 (oneDNN's kernels, on AMX where there is one), softmax in float32. Rows are
// read and written where they lie, bfloat16 as its 16-bit patterns. N tokens, K head_dim.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/aligned_buffer.h"

namespace fovea::kernels::cpu {

// Whether this processor and this libtorch have such products.
bool has_bfloat16_attention();

// K that can be: a product's rows are read in pairs of values.
inline bool fits_bfloat16_attention(int64_t head_dim) { return head_dim % 8 == 0; }

// A matrix [N, K] inside a larger one: its rows are `stride` values apart, an even number.
struct InRows {
  const uint16_t* data;
  int64_t stride;
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

// Working memory of one thread; grows to the largest head seen.
class Bfloat16AttentionScratch {
 public:
  // Lays out the buffers below. A pair is of the values of two rows, or of two columns.
  void resize(int64_t N, int64_t K);

  int64_t padded = 0;                      // Np: N rounded up to 32
  float *scores, *dscores;                 // [Np, Np]
  uint16_t *probabilities, *dscores_rows;  // [Np, Np]
  uint32_t* dscores_pairs;                 // [Np / 2, Np]: of rows
  uint32_t* column_pairs;                  // [K / 2, Np]
  uint32_t* row_pairs;                     // [Np / 2, K]
  uint16_t* keys_transposed;               // [K, Np]
  float* rows;                             // [N, K] or [K, Np]: a result
  float *log_sums, *row_sums;              // [Np]

 private:
  AlignedBuffer<float> memory_;
  int64_t tokens_ = 0, width_ = 0;
};

// out = softmax(q k^T scale) v, and log_sums[n] = log(sum_m exp(q_n k_m scale)).
void bfloat16_attention_forward(Bfloat16AttentionScratch& scratch, const QkvRows& qkv, int64_t N,
                                int64_t K, float scale, OutRows out, float* log_sums);

// From log_sums as forward has left them.
void bfloat16_attention_backward(Bfloat16AttentionScratch& scratch, const QkvRows& qkv, InRows dout,
                                 const float* log_sums, int64_t N, int64_t K, float scale,
                                 const QkvGradientRows& gradients);

// After the last head of a thread: gives back the registers that products are taken in.
void release_bfloat16_attention();

}  // namespace fovea::kernels::cpu
