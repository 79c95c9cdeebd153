// Which batch of its set a batch of a mix is, by its turn in the epoch.
//
// The batches of several sets come in permuted order. A set whose samples come in windows (see
// TileOrder) must be gone through from its first batch to its last all the same, or each batch
// would be of another window.
#pragma once

#include <cstdint>
#include <vector>

#include "fovea/data/order/last_two.h"

namespace fovea::data {

// Thread-safe. 8 bytes for each batch of an epoch.
class BatchTurns {
 public:
  // ends: [sets] batches of sets 0 to s; the batches are permuted by `seed` and the epoch.
  BatchTurns(std::vector<int64_t> ends, uint64_t seed) : ends_(std::move(ends)), seed_(seed) {}

  // How many batches of its set come before the batch of turn `turn`.
  int64_t number(int64_t turn, int64_t epoch) const;

 private:
  std::vector<int64_t> make_numbers(int64_t epoch) const;

  std::vector<int64_t> ends_;
  uint64_t seed_;
  mutable LastTwo<std::vector<int64_t>> numbers_;
};

}  // namespace fovea::data
