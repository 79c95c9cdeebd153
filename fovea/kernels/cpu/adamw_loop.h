// AdamW over buffers of float on the CPU, free of tensors.
#pragma once

#include <cstdint>

#include "fovea/kernels/elementwise/update_elements.h"

namespace fovea::kernels::cpu {

// count elements of parameter, gradient and both moments.
void adamw_update(float* param, const float* grad, float* exp_avg, float* exp_avg_sq, int64_t count,
                  const AdamWCoefficients& coefficients);

}  // namespace fovea::kernels::cpu
