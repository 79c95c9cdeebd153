// The products of matrix_products.h by cpu/strip_product.h, for ProductPath::kStrips, of float32 on
// a CPU, and for kRoundedStrips.
//
// M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/kernels/linear/matrix_products.h"

namespace fovea::kernels {

// a: [M, K], b: [K, N], any strides; b may be of bfloat16, whose rows are dense then -> a b: [M,
// N].
at::Tensor product_of_strips(const at::Tensor& a, const at::Tensor& b);

// As product(), of a weight whose strips may be kept (weight_copies.h).
at::Tensor product_with_weight_strips(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, const at::Tensor& residual);

// As product_and_gelu(). Where the product is not needed it is undefined.
ProductAndGelu strip_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& bias, bool needs_product);

// The same of bfloat16, by a weight whose strips are kept (kept_rounded_strips).
at::Tensor product_with_rounded_strips(const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& bias, const at::Tensor& residual);
ProductAndGelu rounded_strip_product_and_gelu(const at::Tensor& x, const at::Tensor& weight,
                                              const at::Tensor& bias, bool needs_product);

}  // namespace fovea::kernels
