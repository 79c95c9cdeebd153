// The products of matrix_products.h with zeros behind each row of x and of the weight, so that rows
// are as long as tensor cores want them. Zeros add nothing: in exact arithmetic the results are
// those without them.
//
// M rows, K input width, N output width.
#pragma once

#include "fovea/kernels/linear/matrix_products.h"

namespace fovea::kernels {

// The next multiple of 16, which is what FP8 wants too.
int64_t padded_width(int64_t K);

// x: [M, K], weight: [N, K], bias: [N] or undefined, residual: [M, N] or undefined -> [M, N].
at::Tensor padded_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& residual = {});

// dy: [M, N], weight: [N, K] -> [M, K].
at::Tensor padded_input_gradient(const at::Tensor& dy, const at::Tensor& weight);

// dy: [M, N], x: [M, K] -> [N, K], and [N] where it is wanted.
WeightGradients padded_weight_gradients(const at::Tensor& dy, const at::Tensor& x, bool wants_bias);

}  // namespace fovea::kernels
