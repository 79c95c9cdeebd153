// The products of matrix_products.h by cpu/panel_product.h, for ProductPath::kPanels and
// kPanelsInTiles: of bfloat16 on a CPU.
//
// M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/kernels/linear/matrix_products.h"

namespace fovea::kernels {

// a: [M, K], b: [K, N], any strides, bias: [N], residual: [M, N], or undefined -> a b + bias: [M,
// N] bfloat16, and that + residual.
at::Tensor product_of_panels(ProductPath path, const at::Tensor& a, const at::Tensor& b,
                             const at::Tensor& bias, const at::Tensor& residual = {});

// As weight_gradients(), in float32.
WeightGradients weight_gradients_of_panels(ProductPath path, const at::Tensor& dy,
                                           const at::Tensor& x, bool wants_bias);

}  // namespace fovea::kernels
