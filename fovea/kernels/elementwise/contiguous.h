// Tensors whose rows lie apart, as one piece of memory.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// x.contiguous(). Where rows (the last dim) are dense, and no gradient of x is recorded, our own
// threads copy them whole on a CPU (Note [Teams]), with what is read next asked for in time.
// x: [..., M, D] of float32 or bfloat16 for that.
at::Tensor contiguous(const at::Tensor& x);

}  // namespace fovea::kernels
