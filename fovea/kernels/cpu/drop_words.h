// The words of Note [Drop masks] (../elementwise/drop.h) on the CPU, free of tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "fovea/core/philox.h"

namespace fovea::kernels::cpu {

// What a rate means for a 32-bit word: kept when word >= threshold.
inline uint32_t drop_threshold(double rate) {
  return static_cast<uint32_t>(std::min(std::nearbyint(rate * 0x1p32), 0x1p32 - 1));
}

// words[e] for e in [0, elements) of one row.
void drop_words(PhiloxKey key, uint32_t step, uint64_t row, int64_t elements, uint32_t* words);

// 0 or scale for e in [0, elements) of one row.
void drop_mask_row(PhiloxKey key, uint32_t step, uint64_t row, int64_t elements, uint32_t threshold,
                   float scale, float* mask);

}  // namespace fovea::kernels::cpu
