// What is done around products of 8-bit integers (see Note [Int8]) whose rows and results are
// bfloat16, on a processor with AVX-512 BF16.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/int8_vectors.h"

namespace fovea::kernels::cpu {

// As quantize_rows, with codes of one byte.
void quantize_rows_in_avx512(const Int8Values<uint16_t>& x, const Int8Row* given,
                             const Int8Codes& codes);

// As finish_rows, with GELU as that of bfloat16 (gelu.h).
void finish_rows_in_avx512(const Int8Sums& sums, const Int8Columns& columns,
                           const Int8Results<uint16_t>& results);

}  // namespace fovea::kernels::cpu
