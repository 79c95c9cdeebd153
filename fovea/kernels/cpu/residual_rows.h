// Residual branches over rows of float on the CPU, free of tensors. D is the row length.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// y = x + branch * scale * mask, each product and the sum rounded; scale may be null: 1.
void residual_row(const float* x, const float* branch, const float* scale, float mask, int64_t D,
                  float* y);

// dbranch = dy * mask * scale, and dscale += dy * mask * branch (where not null).
void residual_row_backward(const float* dy, const float* branch, const float* scale, float mask,
                           int64_t D, float* dbranch, float* dscale);

}  // namespace fovea::kernels::cpu
