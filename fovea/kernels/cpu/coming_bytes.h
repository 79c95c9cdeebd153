// What a product multiplies next comes into the caches while a block is multiplied.
//
// Note [Asking for memory]
// A function that does nothing but ask for memory has no effect in the eyes of gcc 12, which leaves
// out the calls of it, and of what calls nothing else, without a word. So asking has one: the empty
// assembly of ask_for_row, which is no instruction.
#pragma once

#include <cstdint>

#include "fovea/kernels/cpu/product_sizes.h"

#define FOVEA_ASKS_FOR_MEMORY __attribute__((always_inline)) inline

namespace fovea::kernels::cpu {

inline constexpr int64_t kCacheLine = 64;

// Asks for the lines of a row of `count` values, to write them or to read them, in the cache that
// kCache says: 3 the first-level one, 2 the second.
template <bool kToWrite, int kCache = 3, class T>
FOVEA_ASKS_FOR_MEMORY void ask_for_row(const T* row, int64_t count) {
  for (int64_t i = 0; i < count; i += kCacheLine / int64_t{sizeof(T)}) {
    __builtin_prefetch(row + i, kToWrite, kCache);
  }
  asm volatile("");
}

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
    ask_for_row</*kToWrite=*/false, kCache>(at, at_a_time);
    at += at_a_time;
  }
  void pass(int64_t steps) { at += steps * at_a_time; }
};

}  // namespace fovea::kernels::cpu
