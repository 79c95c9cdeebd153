// What libtorch's matrix products and convolutions cost, seen from at::RecordFunction.
#pragma once

#include <ATen/record_function.h>

namespace fovea::train {

// FLOPs of a product of libtorch that is about to run, 2 a multiply-add; 0 for what is no product,
// and for those that call another one of these. Of a convolution those of multiplying it out, with
// the padding, whatever algorithm runs. The callback must have asked for inputs.
double product_flops(const at::RecordFunction& function);

// Whether it multiplies FP8.
bool is_fp8_product(const at::RecordFunction& function);

}  // namespace fovea::train
