// The kernel of column_sums.h, which runs twice: over the rows of each part, and over the parts.
#include "fovea/kernels/cuda/column_parts.cuh"
#include "fovea/kernels/cuda/column_sums.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

// sums[blockIdx.y] = the sum of `rows` rows of x, or as many as there are.
template <class T, int W>
__global__ void __launch_bounds__(kWarp* kRowThreads)
    column_sums_kernel(const T* x, int64_t M, int64_t N, int64_t rows, float* sums) {
  const int64_t column = own_column<W>();
  const int64_t first = blockIdx.y * rows, end = first + rows < M ? first + rows : M;
  float sum[W] = {};
  if (column < N) {
    for (int64_t m = first + threadIdx.y; m < end; m += kRowThreads) {
      float row[W];
      load<W>(x + m * N + column, row);
#pragma unroll
      for (int j = 0; j < W; ++j) sum[j] += row[j];
    }
  }
  sum_over_y(sum);
  if (threadIdx.y == 0 && column < N) store<W>(sum, sums + blockIdx.y * N + column);
}

// Sums of each `rows` rows of x [M, N].
template <class T>
void sum_parts(const T* x, int64_t M, int64_t N, int64_t rows, float* sums, Stream stream) {
  const bool is_wide = N % kVector<T> == 0 && are_aligned(x, sums);
  launch(is_wide ? column_sums_kernel<T, kVector<T>> : column_sums_kernel<T, 1>,
         stripes(N, is_wide ? kVector<T> : 1, (M + rows - 1) / rows), stream, x, M, N, rows, sums);
}

}  // namespace

void sum_columns(const void* x, const MatrixShape& shape, float* parts, float* sums,
                 Stream stream) {
  const int64_t M = shape.rows, N = shape.columns, P = parts_of_rows(M);
  with_element_type(shape.type, [&](auto element) {
    sum_parts(static_cast<const decltype(element)*>(x), M, N, rows_of_part(M), P > 1 ? parts : sums,
              stream);
  });
  if (P > 1) sum_parts<float>(parts, P, N, P, sums, stream);
}

}  // namespace fovea::kernels::cuda
