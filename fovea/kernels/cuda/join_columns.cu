// The kernel of join_columns.h, in the layout of column_parts.cuh.
#include "fovea/kernels/cuda/column_parts.cuh"
#include "fovea/kernels/cuda/join_columns.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

// What the kernel takes of JoinColumns: device code indexes no std::array.
struct Joined {
  const void *first, *second, *third;
  void* to;
  float* sum_parts;
};

// Block blockIdx.y has part_rows rows. W divides N.
template <class T, int W>
__global__ void __launch_bounds__(kWarp* kRowThreads)
    join_columns_kernel(Joined join, int64_t M, int64_t N, int64_t part_rows) {
  const int64_t column = own_column<W>(), width = kJoined * N;
  const int64_t first = blockIdx.y * part_rows;
  const int64_t end = first + part_rows < M ? first + part_rows : M;
  float sum[W] = {};
  if (column < width) {
    const bool is_third = column >= 2 * N, is_first = column < N;
    const auto* from = static_cast<const T*>(is_third   ? join.third
                                             : is_first ? join.first
                                                        : join.second);
    from += column - (is_third ? 2 * N : is_first ? 0 : N);
    T* to = static_cast<T*>(join.to) + column;
#pragma unroll 4
    for (int64_t m = first + threadIdx.y; m < end; m += kRowThreads) {
      float values[W];
      load<W>(from + m * N, values);
#pragma unroll
      for (int j = 0; j < W; ++j) sum[j] += values[j];
      store<W>(values, to + m * width);
    }
  }
  sum_over_y(sum);
  if (threadIdx.y == 0 && column < width) {
    store<W>(sum, join.sum_parts + blockIdx.y * width + column);
  }
}

}  // namespace

void join_columns(const JoinColumns& join, const JoinShape& shape, Stream stream) {
  const int64_t M = shape.rows, N = shape.columns;
  const Joined parts{join.from[0], join.from[1], join.from[2], join.to, join.sum_parts};
  with_element_type(shape.type, [&](auto element) {
    using T = decltype(element);
    const bool is_wide = N % kVector<T> == 0 &&
                         are_aligned(parts.first, parts.second, parts.third, parts.to) &&
                         are_aligned(parts.sum_parts);
    launch(is_wide ? join_columns_kernel<T, kVector<T>> : join_columns_kernel<T, 1>,
           stripes(kJoined * N, is_wide ? kVector<T> : 1, parts_of_rows(M)), stream, parts, M, N,
           rows_of_part(M));
  });
}

}  // namespace fovea::kernels::cuda
