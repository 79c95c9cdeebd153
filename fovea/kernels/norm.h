// Normalisation over the last dim. Statistics and parameters are float32 whatever the dtype of x.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// x: [..., D], weight and bias: [D] or undefined -> [..., D] in the dtype of x.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps);

// x / sqrt(mean(x^2) + eps) * weight. x: [..., D], weight: [D] or undefined.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

}  // namespace fovea::kernels
