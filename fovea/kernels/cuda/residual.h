// The end of a residual branch (../residual.h) on a GPU. Computed in float32.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/cuda/row_parts.h"

namespace fovea::kernels::cuda {

struct ResidualShape {
  int64_t rows, width;       // M, D, both above 0, M below 2^32
  int64_t rows_of_a_sample;  // M / B
  ElementType type;          // of x, branch, y and their gradients
};

// All contiguous on the current device.
struct ResidualForward {
  const void *x, *branch;  // [M, D]
  const float* scale;      // [D] or null: 1
  const float* mask;       // [B] or null: 1
  void* y;                 // [M, D]
};

// y = x + branch * scale * mask
void residual_forward(const ResidualForward& residual, const ResidualShape& shape, Stream stream);

struct ResidualBackward {
  const void* dy;      // [M, D]
  const void* branch;  // [M, D]; null without scale
  const float *scale, *mask;
  void* dbranch;  // [M, D]
  // [P, D] with P = parts_of_rows(M), null without scale: sums over the rows of each part. Their
  // sum over the parts is the gradient of scale.
  float* dscale_parts;
};

void residual_backward(const ResidualBackward& residual, const ResidualShape& shape, Stream stream);

}  // namespace fovea::kernels::cuda
