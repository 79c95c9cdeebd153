// Matrix products with the weight layout of torch.nn.Linear.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/kernels/activation.h"

namespace fovea::kernels {

// y = x W^T + b. x: [..., K], weight: [N, K], bias: [N] or undefined -> [..., N].
// Computes in the dtype of x: float32 parameters are cast when x is bfloat16, and their gradients
// come back in the parameters' own dtype, accumulated in float32. That rule is all that mixed
// precision needs of a model.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// linear(activate(x, activation), weight, bias), to the bit, its gradients too; but on a GPU the
// gradient through gelu_tanh is taken before the product that it comes from is rounded. The
// backward pass keeps x alone, and activates again what it needs: a third of what a block of a ViT
// keeps is not kept, for a hundredth of the time.
at::Tensor linear_of_activation(const at::Tensor& x, const HiddenActivation& activation,
                                const at::Tensor& weight, const at::Tensor& bias);

}  // namespace fovea::kernels
