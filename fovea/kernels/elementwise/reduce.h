// Reductions whose order, and with it every bit of the result, is the same for any number of
// threads.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// Sum over rows. x: [M, N] -> [N]: float32, or float64 for float64; accumulated in that dtype. On
// the CPU in float32 and bfloat16, and on a GPU with our module in float16 too, the order depends
// on M alone; elsewhere it is libtorch's.
at::Tensor sum_rows(const at::Tensor& x);

// Sums over all dims but the last one of x, [N] float32, that came on the way when x was written:
// whoever gets x, as a gradient that a bias was added to, need not read it for them. They hang on
// this tensor alone, on no view or copy of it, until it is written to again.
void hang_row_sums(const at::Tensor& x, const at::Tensor& sums);
at::Tensor hanging_row_sums(const at::Tensor& x);  // undefined: none

}  // namespace fovea::kernels
