// Whether a backward pass finds what costs next to nothing to make again, the outputs of norms and
// activations, or makes it again. Bits are the same: what is made again is made by the same kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace fovea::kernels {

// device.recompute_cheap, for this process: "auto", "on" or "off". Throws ConfigError.
void choose_recompute_cheap(const std::string& name);

// Whether `made`, which a forward pass has just computed, is kept for the backward one. auto: on a
// GPU while less than half of its memory is taken, never on a CPU, where what is kept is read from
// memory as slowly as it is made.
bool is_kept_for_backward(const at::Tensor& made);

}  // namespace fovea::kernels
