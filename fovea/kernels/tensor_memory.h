// Memory of a tensor that is taken and given back below autograd, while the tensor itself stays.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::kernels {

// Memory for all of the tensor's elements, on its own device whichever is the current one. What is
// in it is not defined.
void take_memory(const at::Tensor& x);
// From now on the tensor has none.
void give_memory_back(const at::Tensor& x);

}  // namespace fovea::kernels
