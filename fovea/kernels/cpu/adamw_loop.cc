#include "fovea/kernels/cpu/adamw_loop.h"

#include "fovea/kernels/cpu/loop_clones.h"

namespace fovea::kernels::cpu {

void adamw_update(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, int64_t count,
                  const AdamWCoefficients& c) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      adamw_element(c, grad[i], param[i], exp_avg[i], exp_avg_sq[i]);
    }
  });
}

}  // namespace fovea::kernels::cpu
