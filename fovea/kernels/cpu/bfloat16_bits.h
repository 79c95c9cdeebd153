// A bfloat16 value as its 16-bit pattern, in loops that are compiled for several instruction sets.
#pragma once

#include <bit>
#include <cstdint>

#include "fovea/kernels/cpu/loop_clones.h"

namespace fovea::kernels::cpu {

FOVEA_LOOP inline float float_of_bits(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

// The upper half of a float32's pattern, rounded to the nearest, ties to even. Of a NaN: anything.
FOVEA_LOOP inline uint32_t nearest_upper_half(uint32_t bits) {
  return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
}

}  // namespace fovea::kernels::cpu
