// The kernels of residual.h, in the layout of column_parts.cuh: a thread keeps its columns of
// scale.
#include "fovea/kernels/cuda/column_parts.cuh"
#include "fovea/kernels/cuda/residual.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

constexpr int64_t kMaxGridRows = 65535;

template <int W>
__device__ __forceinline__ void load_scale(const float* scale, int64_t column, float* to) {
  if (scale) return load<W>(scale + column, to);
#pragma unroll
  for (int j = 0; j < W; ++j) to[j] = 1.0f;
}

// What the branch of row m is multiplied by. Rows are fewer than 2^32: a division of 64 bits would
// cost as much as the rest.
__device__ __forceinline__ float mask_of(const float* mask, int64_t m, int64_t rows_of_a_sample) {
  return mask ? mask[static_cast<uint32_t>(m) / static_cast<uint32_t>(rows_of_a_sample)] : 1.0f;
}

template <class T, int W>
__global__ void __launch_bounds__(kWarp* kRowThreads)
    forward_kernel(ResidualForward residual, ResidualShape shape) {
  const int64_t column = own_column<W>();
  if (column >= shape.width) return;
  float scale[W];
  load_scale<W>(residual.scale, column, scale);
  const int64_t stride = int64_t{gridDim.y} * kRowThreads;
  for (int64_t m = int64_t{blockIdx.y} * kRowThreads + threadIdx.y; m < shape.rows; m += stride) {
    const float mask = mask_of(residual.mask, m, shape.rows_of_a_sample);
    const int64_t at = m * shape.width + column;
    float x[W], branch[W];
    load<W>(static_cast<const T*>(residual.x) + at, x);
    load<W>(static_cast<const T*>(residual.branch) + at, branch);
#pragma unroll
    for (int j = 0; j < W; ++j) x[j] += branch[j] * scale[j] * mask;
    store<W>(x, static_cast<T*>(residual.y) + at);
  }
}

// Block blockIdx.y has part_rows rows, of which it sums up the gradient of scale.
template <class T, int W>
__global__ void __launch_bounds__(kWarp* kRowThreads)
    backward_kernel(ResidualBackward residual, ResidualShape shape, int64_t part_rows) {
  const int64_t column = own_column<W>();
  const int64_t first = blockIdx.y * part_rows;
  const int64_t end = first + part_rows < shape.rows ? first + part_rows : shape.rows;
  float sum[W] = {};
  if (column < shape.width) {
    float scale[W];
    load_scale<W>(residual.scale, column, scale);
    for (int64_t m = first + threadIdx.y; m < end; m += kRowThreads) {
      const float mask = mask_of(residual.mask, m, shape.rows_of_a_sample);
      const int64_t at = m * shape.width + column;
      float dy[W];
      load<W>(static_cast<const T*>(residual.dy) + at, dy);
#pragma unroll
      for (int j = 0; j < W; ++j) dy[j] *= mask;
      if (residual.dscale_parts) {
        float branch[W];
        load<W>(static_cast<const T*>(residual.branch) + at, branch);
#pragma unroll
        for (int j = 0; j < W; ++j) sum[j] += dy[j] * branch[j];
      }
#pragma unroll
      for (int j = 0; j < W; ++j) dy[j] *= scale[j];
      store<W>(dy, static_cast<T*>(residual.dbranch) + at);
    }
  }
  if (!residual.dscale_parts) return;
  sum_over_y(sum);
  if (threadIdx.y == 0 && column < shape.width) {
    store<W>(sum, residual.dscale_parts + blockIdx.y * shape.width + column);
  }
}

}  // namespace

void residual_forward(const ResidualForward& residual, const ResidualShape& shape, Stream stream) {
  const int64_t blocks = (shape.rows + kRowThreads - 1) / kRowThreads;
  with_element_type(shape.type, [&](auto element) {
    using T = decltype(element);
    const bool is_wide = shape.width % kVector<T> == 0 &&
                         are_aligned(residual.x, residual.branch, residual.y, residual.scale);
    launch(is_wide ? forward_kernel<T, kVector<T>> : forward_kernel<T, 1>,
           stripes(shape.width, is_wide ? kVector<T> : 1, std::min(blocks, kMaxGridRows)), stream,
           residual, shape);
  });
}

void residual_backward(const ResidualBackward& residual, const ResidualShape& shape,
                       Stream stream) {
  with_element_type(shape.type, [&](auto element) {
    using T = decltype(element);
    const bool is_wide = shape.width % kVector<T> == 0 &&
                         are_aligned(residual.dy, residual.branch) &&
                         are_aligned(residual.dbranch, residual.scale, residual.dscale_parts);
    launch(is_wide ? backward_kernel<T, kVector<T>> : backward_kernel<T, 1>,
           stripes(shape.width, is_wide ? kVector<T> : 1, parts_of_rows(shape.rows)), stream,
           residual, shape, rows_of_part(shape.rows));
  });
}

}  // namespace fovea::kernels::cuda
