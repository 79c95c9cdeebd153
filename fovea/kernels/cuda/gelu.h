// GELU (../activation.h) on a GPU, exact or by tanh. Computed in float32; of bfloat16 and float16
// Phi to 4e-5 of itself, far below what their rounding is.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/cuda/row_parts.h"

namespace fovea::kernels::cuda {

struct GeluShape {
  int64_t rows, columns;  // M, F, both above 0
  ElementType type;       // of all tensors
  bool is_tanh;           // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), else x Phi(x)
};

// x, y: [M, F], contiguous on the current device.
void gelu_forward(const void* x, const GeluShape& shape, void* y, Stream stream);

// All contiguous on the current device.
struct GeluBackward {
  const void *dy, *x;  // [M, F]
  void* dx;            // [M, F]
  void* y;             // what the forward pass made of x, to the bit; or null: not wanted
  // [P, F] with P = parts_of_rows(M), or null: sums of dx, before it is rounded, over the rows of
  // each part.
  float* dx_parts;
};
void gelu_backward(const GeluBackward& gelu, const GeluShape& shape, Stream stream);

}  // namespace fovea::kernels::cuda
