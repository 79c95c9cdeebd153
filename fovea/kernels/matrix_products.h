// The three products of a linear layer, by the fastest way there is for their shape, dtype and
// processor; on a CPU the same bits for any number of threads. M rows, K input width, N output
// width.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// x: [M, K], weight: [N, K], bias: [N] or undefined, all of one dtype -> x weight^T + bias: [M, N].
at::Tensor product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

// dy: [M, N], weight: [N, K] -> dy weight: [M, K].
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight);

// dy: [M, N], x: [M, K] -> dy^T x: [N, K]; float32 where bfloat16 is multiplied as float32 or in
// tiles.
at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x);

}  // namespace fovea::kernels
