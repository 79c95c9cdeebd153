// Loops over flat buffers of float on the CPU, vectorised for the machine and free of tensors.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// Sum of squares of values * scale, each product rounded to float32, in float64.
double sum_of_squares(const float* values, int64_t count, float scale = 1);

// out = values * first * second, rounded after each product. out may be values.
void scale_twice(const float* values, float* out, int64_t count, float first, float second);

// average += weight * (value - average), and exactly `value` for weight 1.
void lerp(float* average, const float* value, int64_t count, float weight);

}  // namespace fovea::kernels::cpu
