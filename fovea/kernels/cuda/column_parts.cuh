// How sums over rows are split: a matrix is cut into parts of rows (row_parts.h), and each part
// into stripes of columns, which a block has. Every thread takes each eighth row of W columns
// side by side; then neighbours are added in pairs.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/row_parts.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {

inline constexpr int kRowThreads = 8;  // of a block, along rows; a warp lies along columns

// For N columns, W at a time, and so many parts; shared memory is sum_over_y's.
inline LaunchShape stripes(int64_t N, int W, int64_t parts) {
  const int64_t columns = int64_t{kWarp} * W;
  return {.grid = dim3(static_cast<unsigned>((N + columns - 1) / columns),
                       static_cast<unsigned>(parts)),
          .block = dim3(kWarp, kRowThreads),
          .shared_bytes = static_cast<size_t>(kRowThreads * columns) * sizeof(float)};
}

// The first column of this thread's.
template <int W>
__device__ __forceinline__ int64_t own_column() {
  return (int64_t{blockIdx.x} * kWarp + threadIdx.x) * W;
}

// Sums over threadIdx.y, which threadIdx.y 0 gets. All threads of the block call it.
template <int W>
__device__ __forceinline__ void sum_over_y(float (&sum)[W]) {
  auto* scratch = shared_memory<float>();  // [kRowThreads, W, kWarp]
  const auto at = [](unsigned y, int j) {
    return (y * W + static_cast<unsigned>(j)) * kWarp + threadIdx.x;
  };
#pragma unroll
  for (int j = 0; j < W; ++j) scratch[at(threadIdx.y, j)] = sum[j];
  for (unsigned half = kRowThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      sum[j] += scratch[at(threadIdx.y + half, j)];
      scratch[at(threadIdx.y, j)] = sum[j];
    }
  }
}

}  // namespace fovea::kernels::cuda
