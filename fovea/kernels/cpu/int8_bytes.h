// Products of 8-bit integers in vectors of AVX2 (Int8Form::kBytes).
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/int8_blocks.h"

namespace fovea::kernels::cpu {

// Note [Sums of 16 bits]
// AVX2 multiplies bytes, those of one operand without a sign, and adds two products in 16 bits,
// where of codes of rows, 0 to 255, and of weights, -127 to 127, not every sum has a place. It has,
// whatever the rows are, where the weights above zero of a pair come to 128 at most, and those
// below: so it is with most of a trained weight, whose codes are far below the largest of their
// column. In other groups codes of rows are taken less 128, and their signs moved to the weights,
// which is an instruction more: 128 (127 + 127) has a place. 128 times the sum of such weights is
// what a column's sum begins with. So the products are exact, and no column's codes need fewer
// bits.
//
// Whether a group is of the one kind or the other is said of all columns of a strip, whose groups
// are put in order: those that fit come first.
inline constexpr int64_t kInt8BytesRows = 6, kInt8BytesWidth = 16;

// Puts the `groups` groups of a strip, packed one behind another, in order, and writes what
// Int8StripOrder has of it: places: [groups], shifts: [width] -> its num_fitting.
int64_t order_int8_strip(uint8_t* strip, int64_t groups, int32_t* places, int32_t* shifts);

// See multiply_int8_block. Needs has_avx2().
void multiply_int8_bytes(const Int8Factors& factors, bool adds, int32_t* sums);

}  // namespace fovea::kernels::cpu
