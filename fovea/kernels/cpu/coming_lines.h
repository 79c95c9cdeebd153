// What a product multiplies next comes into the caches while a block is multiplied.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

// Memory that comes with the steps of blocks, so many cache lines with each: many at once wait for
// one another, and the block with them.
struct ComingLines {
  const char* at = nullptr;
  int64_t at_a_time = 0;

  static constexpr int64_t kBytes = 64;  // of a line

  // Of `bytes`, for a block of `steps` steps, of which the first one brings nothing.
  static ComingLines of(const void* memory, int64_t bytes, int64_t steps) {
    const int64_t lines = bytes / kBytes, bringing = steps > 1 ? steps - 1 : 1;
    return {static_cast<const char*>(memory), (lines + bringing - 1) / bringing};
  }
  // Brings those of one step. kCache: 3 for the first-level cache, 2 for the second.
  template <int kCache>
  void bring() {
    for (int64_t n = 0; n < at_a_time; ++n, at += kBytes) {
      __builtin_prefetch(at, /*rw=*/0, /*locality=*/kCache);
    }
  }
  void pass(int64_t steps) { at += steps * at_a_time * kBytes; }
};

}  // namespace fovea::kernels::cpu
