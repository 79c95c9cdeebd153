#include "fovea/kernels/cpu/flat_loops.h"

#include <bit>

#include "fovea/core/simd.h"
#include "fovea/kernels/update_elements.h"

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

FOVEA_SIMD void round_to_bfloat16(const float* __restrict values, uint16_t* __restrict out,
                                  int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    out[i] = static_cast<uint16_t>(is_nan ? 0x7fc0u : rounded);
  }
}

}  // namespace fovea::kernels::cpu
