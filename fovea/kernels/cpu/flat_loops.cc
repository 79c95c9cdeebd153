#include "fovea/kernels/cpu/flat_loops.h"

#include "fovea/core/simd.h"
#include "fovea/kernels/elementwise/update_elements.h"

namespace fovea::kernels::cpu {

FOVEA_SIMD double sum_of_squares(const float* values, int64_t count, float scale) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i] * scale);
    sum += value * value;
  }
  return sum;
}

FOVEA_SIMD void scale_twice(const float* values, float* out, int64_t count, float first,
                            float second) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = values[i] * first * second;
}

FOVEA_SIMD void lerp(float* __restrict average, const float* __restrict value, int64_t count,
                     float weight) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) average[i] = lerp_element(average[i], value[i], weight);
}

}  // namespace fovea::kernels::cpu
