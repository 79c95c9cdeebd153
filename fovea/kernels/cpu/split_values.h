// float32 values as sums of bfloat16 values, which are their 16-bit patterns. See Note [Split
// products].
#pragma once

#include <cstdint>
#include <span>

namespace fovea::kernels::cpu {

// x is the sum of three: itself rounded to bfloat16, the rest rounded, and what that leaves. Of a
// value that is not finite the rests are zero. values: [count]; part order[i], 0 to 2, of each goes
// to to + i * step.
void split_values(const float* values, int64_t count, std::span<const int> order, uint16_t* to,
                  int64_t step);

}  // namespace fovea::kernels::cpu
