// Reductions whose order, and with it every bit of the result, is the same for any number of
// threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// Sum over rows. x: [M, N] -> [N]: float32, or float64 for float64; accumulated in that dtype. On
// the CPU in float32 and bfloat16, and on a GPU with our module in float16 too, the order depends
// on M alone; elsewhere it is libtorch's.
at::Tensor sum_rows(const at::Tensor& x);

}  // namespace fovea::kernels
