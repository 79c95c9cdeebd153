// The kernels of gelu.h. The backward pass can leave the output of the forward one and sums of the
// gradient as well, for memory is what it waits for; it runs in the layout of column_parts.cuh.
#include <type_traits>

#include "fovea/kernels/cuda/column_parts.cuh"
#include "fovea/kernels/cuda/gelu.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

constexpr int kGeluThreads = 256, kGeluGroups = 2;

// gelu(x) = x * gate; slope: its derivative.
struct GeluValue {
  float gate, slope;
};

constexpr float kRootHalf = 0.70710678118654752f;       // 1 / sqrt(2)
constexpr float kDensityAtZero = 0.39894228040143268f;  // 1 / sqrt(2 pi)

__device__ __forceinline__ GeluValue exact_gelu(float x) {
  const float share = 0.5f * (1.0f + erff(x * kRootHalf));  // Phi(x)
  return {share, share + x * kDensityAtZero * expf(-0.5f * x * x)};
}

// One exponential for Phi and its density: Phi(-z) = exp(-z^2 / 2) p(t) / 2 with t = 1 / (1 + c z),
// z >= 0, and a polynomial p whose largest relative error is the least (tools/fit_gelu.py).
__device__ __forceinline__ GeluValue short_gelu(float x) {
  constexpr float kC = 0.54f * kRootHalf;
  const float bell = fast_exp(-0.5f * x * x), t = fast_reciprocal(1.0f + kC * fabsf(x));
  float sum = -0.17880376034f;
  sum = sum * t + 0.36853177870f;
  sum = sum * t + 0.19052817346f;
  sum = sum * t + 0.31566294837f;
  sum = sum * t + 0.30404193601f;
  const float tail = 0.5f * bell * sum * t;
  const float share = x < 0.0f ? tail : 1.0f - tail;
  return {share, share + x * kDensityAtZero * bell};
}

__device__ __forceinline__ GeluValue tanh_gelu(float x) {
  constexpr float kScale = 0.79788456080286536f, kCubic = 0.044715f;  // sqrt(2 / pi)
  const float square = x * x;
  const float t = tanhf(kScale * x * (1.0f + kCubic * square));
  const float share = 0.5f * (1.0f + t);
  const float inner_slope = kScale * (1.0f + 3.0f * kCubic * square);
  return {share, share + 0.5f * x * (1.0f - t * t) * inner_slope};
}

template <class T, bool is_tanh>
__device__ __forceinline__ GeluValue gelu_value(float x) {
  if (is_tanh) return tanh_gelu(x);
  return sizeof(T) == sizeof(float) ? exact_gelu(x) : short_gelu(x);
}

// A thread has kGeluGroups groups of W elements side by side, and reads them all before it
// computes.
template <class T, int W, bool is_tanh>
__global__ void __launch_bounds__(kGeluThreads)
    gelu_forward_kernel(const T* x, int64_t count, T* y) {
  const int64_t first = (int64_t{blockIdx.x} * kGeluThreads * kGeluGroups + threadIdx.x) * W;
  constexpr int64_t kStride = int64_t{kGeluThreads} * W;
  float values[kGeluGroups][W];
#pragma unroll
  for (int group = 0; group < kGeluGroups; ++group) {
    const int64_t at = first + group * kStride;
    if (at < count) load<W>(x + at, values[group]);
  }
#pragma unroll
  for (int group = 0; group < kGeluGroups; ++group) {
    const int64_t at = first + group * kStride;
    if (at >= count) continue;
#pragma unroll
    for (int j = 0; j < W; ++j) {
      values[group][j] *= gelu_value<T, is_tanh>(values[group][j]).gate;
    }
    store<W>(values[group], y + at);
  }
}

// Block blockIdx.y has part_rows rows.
template <class T, int W, bool is_tanh>
__global__ void __launch_bounds__(kWarp* kRowThreads)
    gelu_backward_kernel(GeluBackward gelu, int64_t M, int64_t F, int64_t part_rows) {
  const int64_t column = own_column<W>();
  const int64_t first = blockIdx.y * part_rows;
  const int64_t end = first + part_rows < M ? first + part_rows : M;
  float sum[W] = {};
  if (column < F) {
#pragma unroll 2
    for (int64_t m = first + threadIdx.y; m < end; m += kRowThreads) {
      const int64_t at = m * F + column;
      float x[W], gradient[W];
      load<W>(static_cast<const T*>(gelu.x) + at, x);
      load<W>(static_cast<const T*>(gelu.dy) + at, gradient);
#pragma unroll
      for (int j = 0; j < W; ++j) {
        const auto value = gelu_value<T, is_tanh>(x[j]);
        gradient[j] *= value.slope;
        x[j] *= value.gate;
        sum[j] += gradient[j];
      }
      store<W>(gradient, static_cast<T*>(gelu.dx) + at);
      if (gelu.y) store<W>(x, static_cast<T*>(gelu.y) + at);
    }
  }
  if (!gelu.dx_parts) return;
  sum_over_y(sum);
  if (threadIdx.y == 0 && column < F) store<W>(sum, gelu.dx_parts + blockIdx.y * F + column);
}

LaunchShape groups_of(int64_t count, int W) {
  const int64_t per_block = int64_t{kGeluThreads} * kGeluGroups * W;
  return {.grid = dim3(static_cast<unsigned>((count + per_block - 1) / per_block)),
          .block = dim3(kGeluThreads)};
}

// f(element of a type, whether by tanh, elements that a thread reads at once), as constants.
template <class F>
void with_gelu_kind(const GeluShape& shape, bool is_aligned, const F& f) {
  with_element_type(shape.type, [&](auto element) {
    constexpr int kWide = kVector<decltype(element)>;
    const bool is_wide = is_aligned && shape.columns % kWide == 0;
    const auto with_width = [&](auto is_tanh) {
      if (is_wide) return f(element, is_tanh, std::integral_constant<int, kWide>{});
      f(element, is_tanh, std::integral_constant<int, 1>{});
    };
    if (shape.is_tanh) return with_width(std::true_type{});
    with_width(std::false_type{});
  });
}

}  // namespace

void gelu_forward(const void* x, const GeluShape& shape, void* y, Stream stream) {
  with_gelu_kind(shape, are_aligned(x, y), [&](auto element, auto is_tanh, auto width) {
    using T = decltype(element);
    const int64_t count = shape.rows * shape.columns;
    launch(gelu_forward_kernel<T, width(), is_tanh()>, groups_of(count, width()), stream,
           static_cast<const T*>(x), count, static_cast<T*>(y));
  });
}

void gelu_backward(const GeluBackward& gelu, const GeluShape& shape, Stream stream) {
  const bool is_aligned = are_aligned(gelu.dy, gelu.x, gelu.dx, gelu.y, gelu.dx_parts);
  with_gelu_kind(shape, is_aligned, [&](auto element, auto is_tanh, auto width) {
    launch(gelu_backward_kernel<decltype(element), width(), is_tanh()>,
           stripes(shape.columns, width(), parts_of_rows(shape.rows)), stream, gelu, shape.rows,
           shape.columns, rows_of_part(shape.rows));
  });
}

}  // namespace fovea::kernels::cuda
