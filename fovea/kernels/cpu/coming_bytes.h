// What a product multiplies next comes into the caches while a block is multiplied.
//
// Note [Asking for memory]
// A function that does nothing but ask for memory has no effect in the eyes of gcc 12, which leaves
// out the calls of it, without a word. So those that their own source calls are always inlined.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/product_sizes.h"

#define FOVEA_ASKS_FOR_MEMORY __attribute__((always_inline)) inline

namespace fovea::kernels::cpu {

// Memory that comes with the steps of blocks, a line or a few at a time: many at once wait for one
// another, and the block with them.
struct ComingBytes {
  const char* at = nullptr;
  int64_t at_a_time = 0;

  // `bytes` with `steps` steps, or with one where there is none.
  static ComingBytes of(const void* memory, int64_t bytes, int64_t steps) {
    return {static_cast<const char*>(memory), parts_of(bytes, steps > 1 ? steps : 1)};
  }
  // Brings those of one step. kCache: 3 for the first-level cache, 2 for the second.
  template <int kCache>
  FOVEA_ASKS_FOR_MEMORY void bring() {
    constexpr int64_t kLine = 64;
    const auto* const end = at + at_a_time;
    for (const auto* line = at; line < end; line += kLine) {
      __builtin_prefetch(line, /*rw=*/0, /*locality=*/kCache);
    }
    at = end;
  }
  void pass(int64_t steps) { at += steps * at_a_time; }
};

}  // namespace fovea::kernels::cpu
