// Scaled dot-product attention.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "fovea/kernels/elementwise/drop.h"

namespace fovea::kernels {

struct AttentionDrop {
  double rate = 0.0;
  DropKey key;  // element of the sample = (h * N + i) * M + j
};

// softmax(q k^T * scale) v, with dropout on the probabilities where `drop` is given.
// q: [B, H, N, K], k and v: [B, H, M, K] -> [B, H, N, K]. No library dropout is used: see Note
// [Drop masks]. key_mask: [B, M] bool, false for keys that nobody attends to; each sample must have
// a true one. Undefined: all are attended to. runs_again: of a forward pass that backward repeats,
// the first time or the second: the kernel is chosen as where gradients are taken, so that both
// give the same bits.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const std::optional<AttentionDrop>& drop = {}, const at::Tensor& key_mask = {},
                     bool runs_again = false);

// The same for the packed projection of self-attention, without taking it apart: qkv: [B, N, 3 D],
// q, k and v one after the other and each by head -> [B, N, D]. num_queries: the first tokens,
// which alone ask the others, [B, num_queries, D], with the bits that they have among all where
// that is computed in float32; 0: all.
at::Tensor self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                          bool runs_again = false, int64_t num_queries = 0);

// The same within each of S sequences that lie one behind another in a single row, as images of
// mixed sizes are packed (Dehghani et al. 2023, NaViT): attention is block-diagonal, without a
// mask, and costs what the sequences cost alone. qkv: [1, T, 3 D]; offsets: [S + 1] from 0 to T,
// sequence s being the tokens [offsets[s], offsets[s + 1]), none of them empty -> [1, T, D]: to the
// bit what self_attention gives for each sequence by itself.
at::Tensor packed_self_attention(const at::Tensor& qkv, int64_t num_heads, double scale,
                                 at::IntArrayRef offsets, bool runs_again = false);

// The probabilities themselves, for explain and named intermediates: [B, H, N, M] float32.
at::Tensor attention_probabilities(const at::Tensor& q, const at::Tensor& k, double scale,
                                   const at::Tensor& key_mask = {});

}  // namespace fovea::kernels
