// A matrix product for each sample.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// c[i] = a[i] b[i]^T. a: [B, M, K], b: [B, N, K], any strides, one dtype -> [B, M, N].
// Differentiable. On the CPU in float32 a sample is one thread's, so the bits are the same for any
// number of threads.
at::Tensor batched_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace fovea::kernels
