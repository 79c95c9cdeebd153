// Slow, obvious forms of the ops in fovea/kernels, for float64 tensors. Elementary operations only,
// so that autograd through them is a reference for gradients as well.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/core/philox.h"
#include "fovea/kernels/elementwise/activation.h"

namespace fovea::reference {

// [..., K], [N, K], [N] or undefined -> [..., N].
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// Over the last dim; weight and bias [D] or undefined.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double eps);
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

// q: [B, H, N, K], k and v: [B, H, M, K], mask: [B, H, N, M] times the probabilities, or undefined.
at::Tensor attention_probabilities(const at::Tensor& q, const at::Tensor& k, double scale);
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale,
                     const at::Tensor& mask = {});

at::Tensor activate(const at::Tensor& x, kernels::Activation kind);

// One word of Note [Drop masks] in fovea/kernels/elementwise/drop.h, straight from its formula.
uint32_t drop_word(PhiloxKey key, uint32_t step, int64_t row, int64_t element);

}  // namespace fovea::reference
