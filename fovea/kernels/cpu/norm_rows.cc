#include "fovea/kernels/cpu/norm_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "fovea/kernels/cpu/bfloat16_bits.h"
#include "fovea/kernels/cpu/loop_clones.h"

namespace fovea::kernels::cpu {

void layer_norm_row(const float* x, const float* weight, const float* bias, float eps, int64_t D,
                    float* y, float* mean, float* rstd) {
  run_loop<KernelOp::kNorm>([=]() FOVEA_LOOP {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < D; ++d) sum += x[d];
    const float guess = sum / static_cast<float>(D);
    // The guess carries the rounding of its sum, which the division by a small deviation would blow
    // up: the second pass corrects it (Chan, Golub and LeVeque 1983, equation 1.7).
    float rest = 0, squares = 0;
#pragma omp simd reduction(+ : rest, squares)
    for (int64_t d = 0; d < D; ++d) {
      const float deviation = x[d] - guess;
      rest += deviation;
      squares += deviation * deviation;
    }
    const float correction = rest / static_cast<float>(D), average = guess + correction;
    const float variance = squares / static_cast<float>(D) - correction * correction;
    const float inverse = 1.0f / std::sqrt(std::max(variance, 0.0f) + eps);
    if (weight && bias) {
      for (int64_t d = 0; d < D; ++d) y[d] = (x[d] - average) * inverse * weight[d] + bias[d];
    } else {
      for (int64_t d = 0; d < D; ++d) {
        y[d] = (x[d] - average) * inverse * (weight ? weight[d] : 1.0f) + (bias ? bias[d] : 0.0f);
      }
    }
    *mean = average;
    *rstd = inverse;
  });
}

void layer_norm_row_backward(const float* dy, const float* x, const float* weight, float mean,
                             float rstd, int64_t D, float* dx, float* dweight, float* dbias) {
  run_loop<KernelOp::kNorm>([=]() FOVEA_LOOP {
    float sum_g = 0, sum_gx = 0;  // of g = dy * weight and g * x_hat
#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t d = 0; d < D; ++d) {
      const float g = weight ? dy[d] * weight[d] : dy[d];
      sum_g += g;
      sum_gx += g * (x[d] - mean) * rstd;
    }
    const float mean_g = sum_g / static_cast<float>(D), mean_gx = sum_gx / static_cast<float>(D);
    for (int64_t d = 0; d < D; ++d) {
      const float g = weight ? dy[d] * weight[d] : dy[d];
      dx[d] = rstd * (g - mean_g - (x[d] - mean) * rstd * mean_gx);
    }
    if (dweight) {
      for (int64_t d = 0; d < D; ++d) dweight[d] += dy[d] * (x[d] - mean) * rstd;
    }
    if (dbias) {
      for (int64_t d = 0; d < D; ++d) dbias[d] += dy[d];
    }
  });
}

namespace {

// Inlined into each caller's clones, so that they are compiled for its instruction set.
__attribute__((always_inline)) inline void widen(const uint16_t* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = float_of_bits(from[i]);
}

__attribute__((always_inline)) inline void narrow(const float* from, int64_t count, uint16_t* to) {
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(from[i]);
    const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
    to[i] = static_cast<uint16_t>(is_nan ? 0x7FC0 : nearest_upper_half(bits));
  }
}

}  // namespace

void bfloat16_to_float(const uint16_t* from, int64_t count, float* to) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP { widen(from, count, to); });
}

void float_to_bfloat16(const float* from, int64_t count, uint16_t* to) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP { narrow(from, count, to); });
}

void bfloat16_rows_to_float(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t count,
                            float* to, int64_t to_stride) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
    for (int64_t r = 0; r < rows; ++r) widen(from + r * from_stride, count, to + r * to_stride);
  });
}

void float_rows_to_bfloat16(const float* from, int64_t from_stride, int64_t rows, int64_t count,
                            uint16_t* to, int64_t to_stride) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
    for (int64_t r = 0; r < rows; ++r) narrow(from + r * from_stride, count, to + r * to_stride);
  });
}

}  // namespace fovea::kernels::cpu
