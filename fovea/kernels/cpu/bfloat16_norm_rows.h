// Layer norm over rows of bfloat16, as their 16-bit patterns, in vectors of AVX-512, on a
// processor with AVX-512 BF16. D is the row length, any.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// layer_norm_row (norm_rows.h) with x and y in bfloat16, y rounded to nearest even.
void bfloat16_layer_norm_row(const uint16_t* x, const float* weight, const float* bias, float eps,
                             int64_t D, uint16_t* y, float* mean, float* rstd);

// layer_norm_row_backward with dy, x and dx in bfloat16.
void bfloat16_layer_norm_row_backward(const uint16_t* dy, const uint16_t* x, const float* weight,
                                      float mean, float rstd, int64_t D, uint16_t* dx,
                                      float* dweight, float* dbias);

}  // namespace fovea::kernels::cpu
