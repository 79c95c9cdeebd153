// Normalisation over the last dim. Statistics and parameters are float32 whatever the dtype of x.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace fovea::kernels {

// What layer_norm makes rows of. Whoever wants them in the backward pass keeps this, which
// layer_norm keeps anyhow, and makes them again.
struct NormedRows {
  at::Tensor x;             // [M, D]
  at::Tensor weight, bias;  // [D] float32 or undefined
  double eps;

  // False: the weights have been put away since (parallel.dp_shard).
  bool are_there() const;
};

// What layer_norm tells whoever takes its output into a product, and adds x to what comes of that.
struct NormedInput {
  std::optional<NormedRows> rows;  // none where no gradient is taken, or they cannot be made again
  // x once more, where its gradient joins that of the norm in the pass that makes it (on a GPU);
  // undefined elsewhere.
  at::Tensor skip;
};

// x: [..., D], weight and bias: [D] or undefined -> [..., D] in the dtype of x. input: what of it
// is told.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, NormedInput* told = nullptr);

// -> [M, D] of `dtype`: the bits that there were, or of rows that were saved in another dtype
// (saved_activation.h) the norm of those.
at::Tensor norm_again(const NormedRows& normed, at::ScalarType dtype);

// x / sqrt(mean(x^2) + eps) * weight. x: [..., D], weight: [D] or undefined.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace fovea::kernels
