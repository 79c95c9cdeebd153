#include "fovea/data/order/permutation.h"

#include <bit>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr uint32_t kRounds = 8;

constexpr uint64_t low_mask(int bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, int64_t epoch)
    : size_(size), epoch_(static_cast<uint32_t>(epoch)), key_(philox_key(seed, "order")) {
  FOVEA_CHECK(size > 0, "size={}; expected a number above 0", size);
  const int bits = std::bit_width(static_cast<uint64_t>(size - 1));
  low_bits_ = (bits + 1) / 2;
  high_bits_ = bits / 2;
}

int64_t Permutation::operator()(int64_t index) const {
  if (size_ == 1) return 0;
  auto value = static_cast<uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= static_cast<uint64_t>(size_));
  return static_cast<int64_t>(value);
}

// The halves take turns: each round adds a keyed function of one half to the other, which its own
// repeat undoes.
uint64_t Permutation::encrypt(uint64_t value) const {
  uint64_t low = value & low_mask(low_bits_);
  uint64_t high = value >> low_bits_;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint64_t input = round % 2 == 0 ? high : low;
    const PhiloxCounter words = philox4x32(
        {static_cast<uint32_t>(input), static_cast<uint32_t>(input >> 32), round, epoch_}, key_);
    const uint64_t word = uint64_t{words[1]} << 32 | words[0];
    if (round % 2 == 0) {
      low ^= word & low_mask(low_bits_);
    } else {
      high ^= word & low_mask(high_bits_);
    }
  }
  return high << low_bits_ | low;
}

}  // namespace fovea::data
