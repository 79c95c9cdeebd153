// What sums of products in float32 become in bfloat16.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/product_sizes.h"

namespace fovea::kernels::cpu {

// sums: [rows, columns], their bias among them. Of a residual and GELU one at most is there.
void round_rows(const float* sums, int64_t rows, int64_t columns, const Bfloat16Result& result);

}  // namespace fovea::kernels::cpu
