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

// As product(), of a weight whose panels may be kept (weight_copies.h).
at::Tensor product_with_weight_panels(ProductPath path, const at::Tensor& x,
                                      const at::Tensor& weight, const at::Tensor& bias,
                                      const at::Tensor& residual);

// As product_and_gelu(). Where the product is not needed it is undefined.
ProductAndGelu panel_product_and_gelu(ProductPath path, const at::Tensor& x,
                                      const at::Tensor& weight, const at::Tensor& bias,
                                      bool needs_product);

struct FloatPanelProduct {
  at::Tensor product;   // [M, N] float32
  at::Tensor row_sums;  // of the first factor: [M] float32, or undefined
};

// a: [M, K], b: [K, N], any strides -> a b, and the sums of a's rows where they are wanted and M >=
// N, as they cost no pass over it then.
FloatPanelProduct float_product_of_panels(ProductPath path, const at::Tensor& a,
                                          const at::Tensor& b, bool wants_row_sums = false);

}  // namespace fovea::kernels
