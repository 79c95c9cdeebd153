// The three products of a linear layer, by the fastest way there is for their shape, dtype and
// processor; on a CPU the same bits for any number of threads, but for the plain operations of
// libtorch. M rows, K input width, N output width.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// x: [M, K], weight: [N, K], bias: [N] or undefined, residual: [M, N] or undefined, all of one
// dtype
// -> x weight^T + bias + residual: [M, N].
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                   const at::Tensor& residual = {});

// dy: [M, N], weight: [N, K] -> dy weight: [M, K].
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight);

struct WeightGradients {
  at::Tensor weight;  // dy^T x: [N, K]
  at::Tensor bias;    // the sum of dy's rows: [N] float32, or undefined
};

// dy: [M, N], x: [M, K]. The gradient of the weight is float32 where bfloat16 is multiplied as
// float32, in panels, or by cuBLASLt. That of the bias comes where it is wanted and costs no pass
// over dy, as with cuBLASLt, and in panels for N >= K.
WeightGradients weight_gradients(const at::Tensor& dy, const at::Tensor& x, bool wants_bias);

}  // namespace fovea::kernels
