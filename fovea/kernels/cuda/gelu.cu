// The kernels of gelu.h: a thread has as many elements side by side as it reads at once. The
// backward pass can leave the output of the forward one as well, for memory is what it waits for.
#include <type_traits>

#include "fovea/kernels/cuda/gelu.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

constexpr int kGeluThreads = 256;

// gelu(x) = x * gate; slope: its derivative.
struct GeluValue {
  float gate, slope;
};

__device__ __forceinline__ GeluValue exact_gelu(float x) {
  constexpr float kRootHalf = 0.70710678118654752f;         // 1 / sqrt(2)
  constexpr float kDensityAtZero = 0.39894228040143268f;    // 1 / sqrt(2 pi)
  const float share = 0.5f * (1.0f + erff(x * kRootHalf));  // Phi(x)
  return {share, share + x * kDensityAtZero * expf(-0.5f * x * x)};
}

__device__ __forceinline__ GeluValue tanh_gelu(float x) {
  constexpr float kScale = 0.79788456080286536f, kCubic = 0.044715f;  // sqrt(2 / pi)
  const float square = x * x;
  const float t = tanhf(kScale * x * (1.0f + kCubic * square));
  const float share = 0.5f * (1.0f + t);
  const float inner_slope = kScale * (1.0f + 3.0f * kCubic * square);
  return {share, share + 0.5f * x * (1.0f - t * t) * inner_slope};
}

template <bool is_tanh>
__device__ __forceinline__ GeluValue gelu_value(float x) {
  return is_tanh ? tanh_gelu(x) : exact_gelu(x);
}

// The first of the W elements of this thread.
template <int W>
__device__ __forceinline__ int64_t own_element() {
  return (int64_t{blockIdx.x} * kGeluThreads + threadIdx.x) * W;
}

template <class T, int W, bool is_tanh>
__global__ void __launch_bounds__(kGeluThreads)
    gelu_forward_kernel(const T* x, int64_t count, T* y) {
  const int64_t at = own_element<W>();
  if (at >= count) return;
  float values[W];
  load<W>(x + at, values);
#pragma unroll
  for (int j = 0; j < W; ++j) values[j] *= gelu_value<is_tanh>(values[j]).gate;
  store<W>(values, y + at);
}

template <class T, int W, bool is_tanh>
__global__ void __launch_bounds__(kGeluThreads)
    gelu_backward_kernel(GeluBackward gelu, int64_t count) {
  const int64_t at = own_element<W>();
  if (at >= count) return;
  float x[W], gradient[W];
  load<W>(static_cast<const T*>(gelu.x) + at, x);
  load<W>(static_cast<const T*>(gelu.dy) + at, gradient);
#pragma unroll
  for (int j = 0; j < W; ++j) {
    const auto value = gelu_value<is_tanh>(x[j]);
    gradient[j] *= value.slope;
    x[j] *= value.gate;
  }
  store<W>(gradient, static_cast<T*>(gelu.dx) + at);
  if (gelu.y) store<W>(x, static_cast<T*>(gelu.y) + at);
}

LaunchShape groups_of(int64_t count, int W) {
  const int64_t per_block = int64_t{kGeluThreads} * W;
  return {.grid = dim3(static_cast<unsigned>((count + per_block - 1) / per_block)),
          .block = dim3(kGeluThreads)};
}

// f(element of a type, whether by tanh, elements that a thread reads at once), as constants.
template <class F>
void with_gelu_kind(const GeluShape& shape, bool is_aligned, const F& f) {
  with_element_type(shape.type, [&](auto element) {
    constexpr int kWide = kVector<decltype(element)>;
    const bool is_wide = is_aligned && shape.count % kWide == 0;
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
    launch(gelu_forward_kernel<T, width(), is_tanh()>, groups_of(shape.count, width()), stream,
           static_cast<const T*>(x), shape.count, static_cast<T*>(y));
  });
}

void gelu_backward(const GeluBackward& gelu, const GeluShape& shape, Stream stream) {
  const bool is_aligned = are_aligned(gelu.dy, gelu.x, gelu.dx, gelu.y);
  with_gelu_kind(shape, is_aligned, [&](auto element, auto is_tanh, auto width) {
    launch(gelu_backward_kernel<decltype(element), width(), is_tanh()>,
           groups_of(shape.count, width()), stream, gelu, shape.count);
  });
}

}  // namespace fovea::kernels::cuda
