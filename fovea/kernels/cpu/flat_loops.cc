#include "fovea/kernels/cpu/flat_loops.h"

#include "fovea/kernels/cpu/loop_clones.h"
#include "fovea/kernels/elementwise/update_elements.h"

namespace fovea::kernels::cpu {

double sum_of_squares(const float* values, int64_t count, float scale) {
  return run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(values[i] * scale);
      sum += value * value;
    }
    return sum;
  });
}

void scale_twice(const float* values, float* out, int64_t count, float first, float second) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) out[i] = values[i] * first * second;
  });
}

void lerp(float* average, const float* value, int64_t count, float weight) {
  run_loop<KernelOp::kLoops>([=]() FOVEA_LOOP {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) average[i] = lerp_element(average[i], value[i], weight);
  });
}

}  // namespace fovea::kernels::cpu
