// Sums over rows on the CPU, free of tensors.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// sum[n] += x[0][n] + ... + x[rows - 1][n], x being rows of N values side by side; the order of
// additions depends on `rows` alone.
void add_rows(const float* x, int64_t rows, int64_t N, float* sum);
void add_rows_bfloat16(const uint16_t* x, int64_t rows, int64_t N, float* sum);

}  // namespace fovea::kernels::cpu
