// The products of matrix_products.h on a CPU by libraries, split by shape alone: a library that
// splits one product over its threads splits by their number, and the sums come out with other
// bits.
//
// M rows, K input width, N output width; none of them 0.
#pragma once

#include "fovea/kernels/linear/product_path.h"

namespace fovea::kernels {

// kBlas, kOneDnn or kMkl. a: [M, K], b: [N, K], any strides, float32, bias: [N] or undefined
// -> a b^T + bias: [M, N].
at::Tensor float_product(ProductPath path, const at::Tensor& a, const at::Tensor& b,
                         const at::Tensor& bias);

// Those, or kFewRows of bfloat16. dy: [M, N], x: [M, K] -> dy^T x: [N, K] in their dtype.
at::Tensor cpu_weight_gradient(ProductPath path, const at::Tensor& dy, const at::Tensor& x);

}  // namespace fovea::kernels
