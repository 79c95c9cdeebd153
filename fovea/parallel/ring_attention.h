// Attention of each rank's queries to the keys of all ranks, which go round from rank to rank (Liu,
// Zaharia, Abbeel 2023, "Ring attention with blockwise transformers for near-infinite context").
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "fovea/parallel/communicator.h"

namespace fovea::parallel {

// A group whose ranks have equal parts of a sequence one after the other, padded at its end.
struct Ring {
  Communicator& ranks;
  std::string what;  // what is called so in messages
  int64_t tokens;    // N of the sequence, without padding
};

// softmax(q k^T * scale) v over all N keys; padding is attended to by nobody. q, k, v: [B, H, n, K]
// of this rank's tokens -> the same. key_mask: [B, N] bool, whole on every rank; see
// kernels::attention. Keys and values of one other rank are here at a time, and those of the next
// one are on their way meanwhile: R - 1 moves of [2, B, H, n, K] in forward, as many in backward,
// and R of their gradients. Differentiable; collective both ways.
at::Tensor ring_attention(const Ring& ring, const at::Tensor& q, const at::Tensor& k,
                          const at::Tensor& v, double scale, const at::Tensor& key_mask = {});

}  // namespace fovea::parallel
