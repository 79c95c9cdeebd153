#include "fovea/optim/update_loops.h"

#include "fovea/core/simd.h"

namespace fovea::optim {

FOVEA_SIMD void sgd_update(float* __restrict param, const float* __restrict grad, int64_t count,
                           const SgdCoefficients& coefficients) {
  const SgdCoefficients c = coefficients;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    param[i] -= c.lr * (grad[i] + c.weight_decay * param[i]);
  }
}

FOVEA_SIMD void sgd_momentum_update(float* __restrict param, const float* __restrict grad,
                                    float* __restrict momentum_buffer, int64_t count,
                                    const SgdCoefficients& coefficients) {
  const SgdCoefficients c = coefficients;
  // Nesterov looks ahead: g + momentum * buffer instead of the buffer.
  const float own = c.nesterov ? 1.0f : 0.0f, of_buffer = c.nesterov ? c.momentum : 1.0f;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = grad[i] + c.weight_decay * param[i];
    const float buffer = c.momentum * momentum_buffer[i] + c.grad_share * g;
    momentum_buffer[i] = buffer;
    param[i] -= c.lr * (own * g + of_buffer * buffer);
  }
}

FOVEA_SIMD void lamb_moments(const float* __restrict grad, float* __restrict exp_avg,
                             float* __restrict exp_avg_sq, float* __restrict step, int64_t count,
                             const LambCoefficients& coefficients) {
  const LambCoefficients c = coefficients;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float g = c.grad_scale * grad[i];
    const float m = c.beta1 * exp_avg[i] + c.grad_share * g;
    const float v = c.beta2 * exp_avg_sq[i] + c.one_minus_beta2 * g * g;
    exp_avg[i] = m;
    exp_avg_sq[i] = v;
    step[i] = m * c.inverse_first / (__builtin_sqrtf(v) * c.inverse_root + c.eps);
  }
}

FOVEA_SIMD void scale(float* values, int64_t count, float factor) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

FOVEA_SIMD void clamp(float* values, int64_t count, float limit) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float low = values[i] < -limit ? -limit : values[i];
    values[i] = low > limit ? limit : low;
  }
}

FOVEA_SIMD void swap(float* __restrict a, float* __restrict b, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const float kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}

}  // namespace fovea::optim
