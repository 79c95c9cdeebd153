// A shuffle without an array: a keyed bijection of [0, size), evaluated one element at a time.
#pragma once

#include <cstdint>

#include "fovea/core/philox.h"

namespace fovea::data {

// The sample order of one epoch, a function of (seed, epoch, size): an alternating Feistel network
// over the smallest power of two that holds `size`, with Philox as its round function; values
// outside [0, size) are sent through again (cycle walking), which keeps it a bijection and takes
// less than two passes on average.
class Permutation {
 public:
  // size > 0.
  Permutation(int64_t size, uint64_t seed, int64_t epoch);

  // Where element `index` of [0, size) goes.
  int64_t operator()(int64_t index) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  int64_t size_;
  uint32_t epoch_;
  PhiloxKey key_;
  int low_bits_;
  int high_bits_;
};

}  // namespace fovea::data
