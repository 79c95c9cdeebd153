// Collectives that autograd goes through: each with its adjoint. Shapes are those of one rank.
//
// B batch, N tokens, n = N / R of R ranks, D width.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "fovea/parallel/communicator.h"

namespace fovea::parallel {

// A group, and what its exchanges are called in messages.
struct Exchange {
  Communicator& ranks;
  std::string what;

  // x is equal on all ranks, each of which uses it for something else: dx is the sum over them.
  at::Tensor sum_gradient(const at::Tensor& x) const;
  // The sum over the ranks, which all use in the same way: dx is dy.
  at::Tensor sum(const at::Tensor& x) const;

  // Between x equal on all ranks and used alike, and its parts along `dim`, one a rank.
  at::Tensor split(const at::Tensor& x, int64_t dim) const;  // dx: the parts joined
  at::Tensor join(const at::Tensor& x, int64_t dim) const;   // dx: the own part

  // Between tokens of which each rank has a part and a layer of which each rank has a part.
  // [B, n, D] -> [B, N, D] for every rank's part of a layer; dx: the own part of the sum.
  at::Tensor gather(const at::Tensor& x, int64_t dim) const;
  // [B, N, D], of which the sum is meant, -> [B, n, D], the own part of that; dx: joined.
  at::Tensor scatter_sum(const at::Tensor& x, int64_t dim) const;

  // Between all features of some tokens and some features of all tokens. Features are `blocks` of
  // equal width, each split by itself. [B, n, D] -> [B, N, D / R], and back.
  at::Tensor tokens_to_features(const at::Tensor& x, int64_t blocks) const;
  at::Tensor features_to_tokens(const at::Tensor& x, int64_t blocks) const;
};

// Zeros behind what there is along dim 1, up to `count`. x: [B, n, D] -> [B, count, D].
at::Tensor pad_tokens(const at::Tensor& x, int64_t count);

}  // namespace fovea::parallel
