// Memory for parameters that were made on the meta device.
#pragma once

#include <ATen/core/Tensor.h>

namespace fovea::nn {

// As parameter.set_data(data), which refuses to go from the meta device to another one: every
// handle of the parameter has the data from now on. It has no gradient yet. data: of its shape.
void give_data(const at::Tensor& parameter, const at::Tensor& data);

}  // namespace fovea::nn
