// The end of products of 8-bit integers whose results are bfloat16 (see Note [Int8]), on a
// processor with AVX-512 BF16.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/int8_vectors.h"

namespace fovea::kernels::cpu {

// As finish_rows, with GELU as that of bfloat16 (gelu.h).
void finish_rows_in_avx512(const Int8Sums& sums, const Int8Columns& columns,
                           const Int8Results<uint16_t>& results);

}  // namespace fovea::kernels::cpu
