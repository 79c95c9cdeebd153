// Self-attention of one head of one sample on the CPU, in float32, free of tensors. Made for short
// sequences, where everything stays in cache: N tokens, K head_dim; both are padded to whole
// vectors inside.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::kernels::cpu {

// Working memory of one thread; grows to the largest head seen.
class AttentionScratch {
 public:
  // Lays out the buffers below for N tokens of width K, filled with zeros where they are padded.
  void resize(int64_t N, int64_t K);

  int64_t padded_tokens = 0;  // N rounded up to a whole vector
  int64_t padded_width = 0;   // K likewise
  float *q, *k, *v;           // [N, Kp]
  float *k_t, *v_t;           // [Kp, Np]
  float *p, *dp;              // [N, Np]: probabilities, and the gradient of the scores
  float *out, *dout;          // [N, Kp]
  float *dq, *dk, *dv;        // [N, Kp]

 private:
  std::vector<float> memory_;
  int64_t tokens_ = 0, width_ = 0;
};

// From q, k, v in `s`: out = softmax(q k^T scale) v, and p.
void attention_head_forward(AttentionScratch& s, int64_t N, int64_t K, float scale);

// From q, k, v and dout in `s`: dq, dk, dv. Computes p again.
void attention_head_backward(AttentionScratch& s, int64_t N, int64_t K, float scale);

}  // namespace fovea::kernels::cpu
