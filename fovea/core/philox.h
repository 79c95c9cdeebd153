// Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011). Every random choice of Fovea is a pure function of a key
// (what is drawn) and a counter (which element), so it is equal for any number of threads, ranks
// and micro-batches, and after any resume.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace fovea {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Ten rounds over one counter block: four independent uniform 32-bit words.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The key of a named stream: FNV-1a (64 bit) of the name, mixed with the seed by SplitMix64's
// finaliser, so that neighbouring seeds and similar names give unrelated keys. Part of the file
// format in effect: weights at step 0, sample order and masks depend on it. Low word first.
constexpr PhiloxKey philox_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  uint64_t mixed = hash ^ (seed * 0x9E3779B97F4A7C15ULL);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBULL;
  mixed ^= mixed >> 31;
  return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
}

// A 32-bit word as a float in [0, 1): its top 24 bits, exact.
constexpr float to_unit_float(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Two words as a double in (0, 1): 53 bits, centred so that 0 does not come up; the largest would
// round to 1 and stays below it.
constexpr double to_unit_double(uint32_t high, uint32_t low) {
  const uint64_t bits = (uint64_t{high} << 21) ^ (low >> 11);  // 53 bits
  const double value = (static_cast<double>(bits) + 0.5) * 0x1p-53;
  return value < 1.0 ? value : 0x1.fffffffffffffp-1;
}

// A short sequence of draws for one (key, epoch-like index, element index): what one sample's
// augmentation uses. The n-th draw depends on nothing but (key, a, b, n).
class RandomStream {
 public:
  RandomStream(PhiloxKey key, uint64_t a, uint32_t b = 0)
      : key_(key), counter_{0, b, static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32)} {}

  uint32_t next_word() {
    if (used_ == 4) {
      block_ = philox4x32(counter_, key_);
      ++counter_[0];
      used_ = 0;
    }
    return block_[used_++];
  }
  // Uniform in [0, 1).
  float uniform() { return to_unit_float(next_word()); }
  // Uniform in [low, high).
  double uniform(double low, double high) {
    const uint32_t first = next_word();
    return low + (high - low) * to_unit_double(first, next_word());
  }
  // Uniform integer in [0, count); count > 0. Multiply-shift: bias below count / 2^32.
  uint32_t below(uint32_t count) {
    return static_cast<uint32_t>((uint64_t{next_word()} * count) >> 32);
  }
  // A stream of its own for another purpose of the same thing, whatever was drawn so far.
  RandomStream fork(uint32_t purpose) const {
    PhiloxKey key = key_;
    key[0] ^= 0x9E3779B9u * (purpose + 1);
    RandomStream forked(key, 0);
    forked.counter_ = {0, counter_[1], counter_[2], counter_[3]};
    return forked;
  }
  // True with the given probability.
  bool bernoulli(double probability) { return uniform() < probability; }

 private:
  PhiloxKey key_;
  PhiloxCounter counter_;
  PhiloxCounter block_{};
  int used_ = 4;
};

}  // namespace fovea
