#include "fovea/kernels/cpu/adamw_loop.h"

#include "fovea/core/simd.h"

namespace fovea::kernels::cpu {

FOVEA_SIMD void adamw_update(float* __restrict param, const float* __restrict grad,
                             float* __restrict exp_avg, float* __restrict exp_avg_sq, int64_t count,
                             const AdamWCoefficients& coefficients) {
  const AdamWCoefficients c = coefficients;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    adamw_element(c, grad[i], param[i], exp_avg[i], exp_avg_sq[i]);
  }
}

}  // namespace fovea::kernels::cpu
