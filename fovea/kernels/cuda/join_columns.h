// Matrices side by side in one, with sums over its rows: the gradients of queries, keys and values
// as that of the product that they come from.
#pragma once

#include <array>
#include <cstdint>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/cuda/row_parts.h"

namespace fovea::kernels::cuda {

inline constexpr int64_t kJoined = 3;  // matrices

struct JoinShape {
  int64_t rows, columns;  // M, N of each, above 0
  ElementType type;
};

// All contiguous on the current device.
struct JoinColumns {
  std::array<const void*, kJoined> from;  // [M, N] each
  void* to;                               // [M, 3 N]
  // [P, 3 N] with P = parts_of_rows(M): sums over the rows of each part.
  float* sum_parts;
};

void join_columns(const JoinColumns& join, const JoinShape& shape, Stream stream);

}  // namespace fovea::kernels::cuda
