// GELU (../activation.h) on a GPU, exact or by tanh. Computed in float32.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"

namespace fovea::kernels::cuda {

struct GeluShape {
  int64_t count;     // above 0
  ElementType type;  // of all tensors
  bool is_tanh;      // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), else x Phi(x)
};

// x, y: [count], contiguous on the current device.
void gelu_forward(const void* x, const GeluShape& shape, void* y, Stream stream);

// All [count], contiguous on the current device.
struct GeluBackward {
  const void *dy, *x;
  void* dx;
  void* y;  // what the forward pass made of x, to the bit; or null: not wanted
};
void gelu_backward(const GeluBackward& gelu, const GeluShape& shape, Stream stream);

}  // namespace fovea::kernels::cuda
