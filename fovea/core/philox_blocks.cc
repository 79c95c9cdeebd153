#include "fovea/core/philox_blocks.h"

#include "fovea/core/simd.h"

namespace fovea {

FOVEA_SIMD void philox_blocks(PhiloxKey key, const PhiloxCounter& first, uint32_t* words) {
  uint32_t c0[kPhiloxBlocks], c1[kPhiloxBlocks], c2[kPhiloxBlocks], c3[kPhiloxBlocks];
  const uint64_t begin = uint64_t{first[1]} << 32 | first[0];
  for (int64_t b = 0; b < kPhiloxBlocks; ++b) {
    const uint64_t block = begin + static_cast<uint64_t>(b);
    c0[b] = static_cast<uint32_t>(block);
    c1[b] = static_cast<uint32_t>(block >> 32);
    c2[b] = first[2];
    c3[b] = first[3];
  }
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    for (int64_t b = 0; b < kPhiloxBlocks; ++b) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[b];
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c2[b];
      c0[b] = static_cast<uint32_t>(p1 >> 32) ^ c1[b] ^ k0;
      c2[b] = static_cast<uint32_t>(p0 >> 32) ^ c3[b] ^ k1;
      c1[b] = static_cast<uint32_t>(p1);
      c3[b] = static_cast<uint32_t>(p0);
    }
  }
  for (int64_t b = 0; b < kPhiloxBlocks; ++b) {
    words[4 * b] = c0[b];
    words[4 * b + 1] = c1[b];
    words[4 * b + 2] = c2[b];
    words[4 * b + 3] = c3[b];
  }
}

}  // namespace fovea
