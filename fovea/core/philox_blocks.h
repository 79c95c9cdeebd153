// Many blocks of Philox side by side, several times as fast as one after another.
#pragma once

#include <cstdint>

#include "fovea/core/philox.h"

namespace fovea {

inline constexpr int64_t kPhiloxBlocks = 64;

// words[4 * b + i]: word i of philox4x32 at the counter `first` + b, for b below kPhiloxBlocks. The
// first two words of a counter are one number of 64 bits.
void philox_blocks(PhiloxKey key, const PhiloxCounter& first, uint32_t* words);

}  // namespace fovea
