// Self-attention of a few queries among many tokens, for inference on a CPU.
//
// Note [Keys and values that are not made]. Of a single query the scores with all keys, q (x
// W_k^T)^T, are (q W_k) x^T, and what it is given, p (x W_v^T), is (p x) W_v^T: products of one row
// instead of two of a row for each token. Keys' bias moves all scores of a query alike, which
// softmax does not see, and the values' comes through as it is, as probabilities sum to 1. Sums are
// rounded in another order than those of keys and values that are made.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::kernels {

// Whether read_attention() is for these and takes less time: float32 on a CPU, where no gradient is
// recorded.
bool takes_read_attention(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          int64_t num_heads, int64_t num_queries);

// self_attention(linear(x, weight, bias), num_heads, scale, false, num_queries), but for rounding.
// x: [B, N, D], weight: [3 H K, D], bias: [3 H K] or undefined -> [B, num_queries, H K]. Bits do
// not depend on the number of threads, nor on the other samples.
at::Tensor read_attention(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          int64_t num_heads, double scale, int64_t num_queries);

}  // namespace fovea::kernels
