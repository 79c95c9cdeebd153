// Compiled without fused multiply-add, so that the bits are those of libtorch's operations one by
// one.
#include "fovea/kernels/cpu/residual_rows.h"

#include "fovea/kernels/cpu/loop_clones.h"

namespace fovea::kernels::cpu {

void residual_row(const float* x, const float* branch, const float* scale, float mask, int64_t D,
                  float* y) {
  run_loop<KernelOp::kResidual>([=]() FOVEA_LOOP {
    if (scale) {
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) y[d] = x[d] + branch[d] * scale[d] * mask;
    } else {
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) y[d] = x[d] + branch[d] * mask;
    }
  });
}

void residual_row_backward(const float* dy, const float* branch, const float* scale, float mask,
                           int64_t D, float* dbranch, float* dscale) {
  run_loop<KernelOp::kResidual>([=]() FOVEA_LOOP {
    if (scale) {
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) dbranch[d] = dy[d] * mask * scale[d];
    } else {
#pragma omp simd
      for (int64_t d = 0; d < D; ++d) dbranch[d] = dy[d] * mask;
    }
    if (!dscale) return;
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) dscale[d] += dy[d] * mask * branch[d];
  });
}

}  // namespace fovea::kernels::cpu
