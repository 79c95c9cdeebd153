// Sums over rows (../reduce.h) on a GPU, in float32 and in an order that depends on the number of
// rows alone: no atomics.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/cuda/row_parts.h"

namespace fovea::kernels::cuda {

struct MatrixShape {
  int64_t rows, columns;  // M, N, both above 0
  ElementType type;
};

// x: [M, N]; parts: [P, N] with P = parts_of_rows(M), not read before it is written and null for P
// = 1; sums: [N]. All contiguous on the current device.
void sum_columns(const void* x, const MatrixShape& shape, float* parts, float* sums, Stream stream);

}  // namespace fovea::kernels::cuda
