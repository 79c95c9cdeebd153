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

// x: [..., D], weight and bias: [D] or undefined -> [..., D] in the dtype of x. rows: becomes what
// they are made of; none where no gradient is taken of them, or where they cannot be made again.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps, std::optional<NormedRows>* rows = nullptr);

// -> [M, D], the bits that there were.
at::Tensor norm_again(const NormedRows& normed);

// x / sqrt(mean(x^2) + eps) * weight. x: [..., D], weight: [D] or undefined.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace fovea::kernels
