// The products of matrix_products.h on a GPU with Fovea's module: by cuBLASLt, which does at a
// product's end what would be a pass over memory of its own.
//
// M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/kernels/elementwise/activation.h"
#include "fovea/kernels/linear/matrix_products.h"
#include "fovea/kernels/linear/product_path.h"

namespace fovea::kernels {

// Whether x is on a GPU that has them.
bool has_gpu_products(const at::Tensor& x);

// Whether the gradient through gelu_tanh can be taken at the end of input_gradient().
bool takes_gelu_gradient(const ProductCase& product, const HiddenActivation& activation);

// Whether a product's end can give gelu_tanh of it as well.
bool takes_gpu_gelu(const ProductCase& product, const HiddenActivation& activation);

// As in matrix_products.h, for ProductPath::kFused. Bits are the same each time.
at::Tensor gpu_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const at::Tensor& residual);
at::Tensor gpu_input_gradient(const at::Tensor& dy, const at::Tensor& weight);
WeightGradients gpu_weight_gradients(const at::Tensor& dy, const at::Tensor& x, bool wants_bias);

// Whether the gradient of a weight can be added to a sum at the end of its product. dy: [M, N], x:
// [M, K].
bool adds_weight_gradients(const at::Tensor& dy, const at::Tensor& x);
// sum: [N, K] float32, contiguous, becomes sum + dy^T x. -> the gradient of the bias [N] float32;
// undefined where it is not wanted.
at::Tensor add_weight_gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& sum,
                                bool wants_bias);

// The product and its gelu_tanh, for cases that takes_gpu_gelu.
ProductAndGelu gpu_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias);

// The gradient of x, of which gelu_tanh(x) [M, K] was multiplied by the weight, from dy [M, N]; for
// cases that takes_gelu_gradient. What the product gives is not rounded before.
at::Tensor input_gradient_through_gelu(const at::Tensor& dy, const at::Tensor& weight,
                                       const at::Tensor& x);

}  // namespace fovea::kernels
