// The kernels of layer_norm.h. The threads of one threadIdx.y have a row between them, which they
// hold in registers: memory is read once and written once. Sums over a row go through the shuffles
// of a warp and, for rows of more than a warp (wider than 1024), through shared memory.
#include <algorithm>
#include <type_traits>

#include "fovea/kernels/cuda/layer_norm.h"
#include "fovea/kernels/cuda/simt.cuh"

namespace fovea::kernels::cuda {
namespace {

// Elements of a row that one thread holds: P. Forwards as many as make a row one warp's, whose sums
// need no shared memory, up to 32; of longer rows 8. Backwards always 8: there are six numbers to
// an element, and with few of them more warps read at once (H200, [50432, 768] of bfloat16: 103 us,
// with a warp for a row 146; forwards it is the other way round, 63 us against 51).
constexpr int kFewPerThread = 8, kMostPerThread = 32;
constexpr int kMaxThreads = static_cast<int>(kMaxNormWidth) / kFewPerThread;
constexpr int kUsualThreads =
    256;                         // of rows up to 2048, for which a thread may have more registers
constexpr int kRowsOfWarps = 4;  // rows of a block where a row is one warp's
// Parts are many, so that they fill a GPU, and of several rows, so that their sums are small beside
// the rows.
constexpr int64_t kMaxParts = 1024, kMinRowsPerPart = 4;

int64_t rows_per_part(int64_t M) {
  return std::max(kMinRowsPerPart, (M + kMaxParts - 1) / kMaxParts);
}

// f(i, d) for each group of W elements side by side that this thread has of a row: its elements i
// to i + W are d to d + W of the row. Neighbouring threads have neighbouring groups.
template <int W, int P, class F>
__device__ __forceinline__ void for_each_group(int D, const F& f) {
#pragma unroll
  for (int i = 0; i < P; i += W) {
    const int d = (i / W * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * W;
    if (d < D) f(i, d);
  }
}

// What stands in place of a parameter that is not there.
template <int W>
__device__ __forceinline__ void load_or(const float* from, int d, float missing, float* to) {
  if (from) return load<W>(from + d, to);
#pragma unroll
  for (int j = 0; j < W; ++j) to[j] = missing;
}

// Of a block where a thread holds P elements.
constexpr int threads_for(int P) { return P == kFewPerThread ? kMaxThreads : kWarp * kRowsOfWarps; }

template <class T, int W, int P>
__global__ void __launch_bounds__(threads_for(P))
    forward_kernel(NormForward norm, int64_t M, int D) {
  auto* scratch = shared_memory<float>();
  const int64_t own = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const int64_t row = own < M ? own : M - 1;  // all threads take part in the sums
  const T* x = static_cast<const T*>(norm.x) + row * D;
  const float width = static_cast<float>(D);
  float values[P];
  float sum[1] = {0};
  for_each_group<W, P>(D, [&](int i, int d) {
    load<W>(x + d, values + i);
#pragma unroll
    for (int j = 0; j < W; ++j) sum[0] += values[i + j];
  });
  sum_over_x(sum, scratch);
  const float guess = sum[0] / width;
  // The guess carries the rounding of its sum; the deviations from it correct it, as on the CPU.
  float rest[2] = {0, 0};  // of the deviations and of their squares
  for_each_group<W, P>(D, [&](int i, int) {
#pragma unroll
    for (int j = 0; j < W; ++j) {
      const float deviation = values[i + j] - guess;
      rest[0] += deviation;
      rest[1] += deviation * deviation;
    }
  });
  sum_over_x(rest, scratch);
  const float correction = rest[0] / width, mean = guess + correction;
  const float variance = rest[1] / width - correction * correction;
  const float rstd = 1.0f / sqrtf(fmaxf(variance, 0.0f) + norm.eps);
  if (own >= M) return;
  if (threadIdx.x == 0) {
    norm.mean[row] = mean;
    norm.rstd[row] = rstd;
  }
  T* y = static_cast<T*>(norm.y) + row * D;
  for_each_group<W, P>(D, [&](int i, int d) {
    float weight[W], bias[W], out[W];
    load_or<W>(norm.weight, d, 1.0f, weight);
    load_or<W>(norm.bias, d, 0.0f, bias);
#pragma unroll
    for (int j = 0; j < W; ++j) out[j] = (values[i + j] - mean) * rstd * weight[j] + bias[j];
    store<W>(out, y + d);
  });
}

// Each threadIdx.y goes through the rows of one part and keeps its sums of dy, dy * x_hat and dx.
template <class T, int W, int kThreads>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(NormBackward norm, int64_t M, int D, int64_t part_rows) {
  constexpr int P = kFewPerThread;
  auto* scratch = shared_memory<float>();
  const int64_t part = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const float width = static_cast<float>(D);
  float dweight[P] = {}, dbias[P] = {}, dx_sum[P] = {};
  for (int64_t r = 0; r < part_rows; ++r) {
    const int64_t own = part * part_rows + r;
    const int64_t row = own < M ? own : M - 1;  // all threads take part in the sums
    const T* x = static_cast<const T*>(norm.x) + row * D;
    const T* dy = static_cast<const T*>(norm.dy) + row * D;
    const float mean = norm.mean[row], rstd = norm.rstd[row];
    float normalized[P], gradient[P];  // x_hat, and that of x_hat
    float skip[P] = {};
    float sums[2] = {0, 0};  // of gradient and gradient * x_hat
    for_each_group<W, P>(D, [&](int i, int d) {
      float weight[W];
      load_or<W>(norm.weight, d, 1.0f, weight);
      load<W>(x + d, normalized + i);
      load<W>(dy + d, gradient + i);
      if (norm.dskip) load<W>(static_cast<const T*>(norm.dskip) + row * D + d, skip + i);
#pragma unroll
      for (int j = 0; j < W; ++j) {
        normalized[i + j] = (normalized[i + j] - mean) * rstd;
        if (own < M) {
          dweight[i + j] += gradient[i + j] * normalized[i + j];
          dbias[i + j] += gradient[i + j];
        }
        gradient[i + j] *= weight[j];
        sums[0] += gradient[i + j];
        sums[1] += gradient[i + j] * normalized[i + j];
      }
    });
    sum_over_x(sums, scratch);
    if (own >= M) continue;
    const float mean_g = sums[0] / width, mean_gx = sums[1] / width;
    T* dx = static_cast<T*>(norm.dx) + row * D;
    for_each_group<W, P>(D, [&](int i, int d) {
      float out[W];
#pragma unroll
      for (int j = 0; j < W; ++j) {
        out[j] = skip[i + j] + rstd * (gradient[i + j] - mean_g - normalized[i + j] * mean_gx);
        dx_sum[i + j] += out[j];
      }
      store<W>(out, dx + d);
    });
  }
  if (part * part_rows >= M) return;
  for_each_group<W, P>(D, [&](int i, int d) {
    const int64_t at = part * norm.parts_stride + d;
    if (norm.dweight_parts) store<W>(dweight + i, norm.dweight_parts + at);
    if (norm.dbias_parts) store<W>(dbias + i, norm.dbias_parts + at);
    if (norm.dx_parts) store<W>(dx_sum + i, norm.dx_parts + at);
  });
}

int per_thread(int64_t D) {
  if (D > int64_t{kMostPerThread} * kWarp) return kFewPerThread;
  const auto least = static_cast<int>((D + kWarp - 1) / kWarp);
  return (least + kFewPerThread - 1) / kFewPerThread * kFewPerThread;
}

// `count` rows or parts, each by the threads of one threadIdx.y with P elements each.
LaunchShape shape_for(int64_t count, int64_t D, int P) {
  const int64_t per_warp = int64_t{P} * kWarp;
  const auto warps = static_cast<unsigned>((D + per_warp - 1) / per_warp);
  const dim3 block(warps * kWarp, warps == 1 ? kRowsOfWarps : 1);
  return {.grid = dim3(static_cast<unsigned>((count + block.y - 1) / block.y)),
          .block = block,
          .shared_bytes = warps == 1 ? 0 : 2 * kWarp * sizeof(float)};
}

// f(element of a type, elements read at once), as constants.
template <class F>
void with_width(const NormShape& shape, bool is_aligned, const F& f) {
  with_element_type(shape.type, [&](auto element) {
    constexpr int kWide = kVector<decltype(element)>;
    const bool is_wide = is_aligned && shape.width % kWide == 0;
    if (is_wide) return f(element, std::integral_constant<int, kWide>{});
    f(element, std::integral_constant<int, 1>{});
  });
}

// f(P), as a constant.
template <class F>
void with_per_thread(int64_t D, const F& f) {
  switch (per_thread(D)) {
    case 8:
      return f(std::integral_constant<int, 8>{});
    case 16:
      return f(std::integral_constant<int, 16>{});
    case 24:
      return f(std::integral_constant<int, 24>{});
    default:
      return f(std::integral_constant<int, kMostPerThread>{});
  }
}

}  // namespace

void layer_norm_forward(const NormForward& norm, const NormShape& shape, Stream stream) {
  const bool is_aligned = are_aligned(norm.x, norm.y, norm.weight, norm.bias);
  const int64_t M = shape.rows, D = shape.width;
  with_width(shape, is_aligned, [&](auto element, auto W) {
    with_per_thread(D, [&](auto P) {
      launch(forward_kernel<decltype(element), W(), P()>, shape_for(M, D, P()), stream, norm, M,
             static_cast<int>(D));
    });
  });
}

int64_t layer_norm_parts(const NormShape& shape) {
  const int64_t rows = rows_per_part(shape.rows);
  return (shape.rows + rows - 1) / rows;
}

void layer_norm_backward(const NormBackward& norm, const NormShape& shape, Stream stream) {
  const bool is_aligned = are_aligned(norm.x, norm.dy, norm.dskip, norm.dx, norm.weight) &&
                          are_aligned(norm.dweight_parts, norm.dbias_parts, norm.dx_parts);
  const int64_t M = shape.rows, D = shape.width;
  with_width(shape, is_aligned, [&](auto element, auto W) {
    using T = decltype(element);
    const bool is_usual = D <= int64_t{kUsualThreads} * kFewPerThread;
    launch(is_usual ? backward_kernel<T, W(), kUsualThreads> : backward_kernel<T, W(), kMaxThreads>,
           shape_for(layer_norm_parts(shape), D, kFewPerThread), stream, norm, M,
           static_cast<int>(D), rows_per_part(M));
  });
}

}  // namespace fovea::kernels::cuda
