// What libtorch's matrix products cost, seen from at::RecordFunction.
#pragma once

#include <ATen/record_function.h>

namespace fovea::train {

// FLOPs of a product of libtorch that is about to run, 2 a multiply-add; 0 for what is no product,
// and for those that call another one of these. The callback must have asked for inputs.
// Convolutions are not counted.
double product_flops(const at::RecordFunction& function);

}  // namespace fovea::train
