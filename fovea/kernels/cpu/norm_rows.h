// Layer norm over rows of float on the CPU, free of tensors. D is the row length.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// y = (x - mean) * rstd * weight + bias; weight and bias may be null (1 and 0). Two passes: mean,
// then the variance of what is centred, so that a large mean costs no precision.
void layer_norm_row(const float* x, const float* weight, const float* bias, float eps, int64_t D,
                    float* y, float* mean, float* rstd);

// dx of one row, and dweight += dy * x_hat, dbias += dy (where not null).
void layer_norm_row_backward(const float* dy, const float* x, const float* weight, float mean,
                             float rstd, int64_t D, float* dx, float* dweight, float* dbias);

// bfloat16 rows, as their 16-bit patterns, to and from float; rounding to nearest even.
void bfloat16_to_float(const uint16_t* from, int64_t count, float* to);
void float_to_bfloat16(const float* from, int64_t count, uint16_t* to);

// The same for rows of `count` values, the starts of which are so many elements apart.
void bfloat16_rows_to_float(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t count,
                            float* to, int64_t to_stride);
void float_rows_to_bfloat16(const float* from, int64_t from_stride, int64_t rows, int64_t count,
                            uint16_t* to, int64_t to_stride);

}  // namespace fovea::kernels::cpu
