// The end of a residual branch in one pass over memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// x + branch * scale * mask: LayerScale and drop path. x, branch: [B, ..., D] of one dtype; scale:
// [D], or undefined: 1; mask: [B], or [T] where x is [1, T, ..., D], of drop_path_mask(), or
// undefined: 1. -> as x. Gradients go to x, branch and scale. In float32 (without fused
// multiply-add on the CPU) and float64 these are the bits of the operations one by one; in bfloat16
// and float16 the products are float32's and the sum alone is rounded. Throws Error for shapes that
// do not fit.
at::Tensor add_residual(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& scale,
                        const at::Tensor& mask);

}  // namespace fovea::kernels
