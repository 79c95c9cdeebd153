#include "fovea/kernels/cpu/drop_words.h"

#include <algorithm>

#include "fovea/core/simd.h"

namespace fovea::kernels::cpu {
namespace {

constexpr int64_t kBlocks = 64;  // counters worked on side by side, so that the rounds vectorise

// words[4 * b + i] for blocks first..first + kBlocks.
FOVEA_SIMD void philox_blocks(PhiloxKey key, uint32_t step, uint64_t row, uint32_t first,
                              uint32_t* words) {
  uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int64_t b = 0; b < kBlocks; ++b) {
    c0[b] = first + static_cast<uint32_t>(b);
    c1[b] = static_cast<uint32_t>(row);
    c2[b] = static_cast<uint32_t>(row >> 32);
    c3[b] = step;
  }
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    for (int64_t b = 0; b < kBlocks; ++b) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c0[b];
      const uint64_t p1 = uint64_t{0xCD9E8D57} * c2[b];
      c0[b] = static_cast<uint32_t>(p1 >> 32) ^ c1[b] ^ k0;
      c2[b] = static_cast<uint32_t>(p0 >> 32) ^ c3[b] ^ k1;
      c1[b] = static_cast<uint32_t>(p1);
      c3[b] = static_cast<uint32_t>(p0);
    }
  }
  for (int64_t b = 0; b < kBlocks; ++b) {
    words[4 * b] = c0[b];
    words[4 * b + 1] = c1[b];
    words[4 * b + 2] = c2[b];
    words[4 * b + 3] = c3[b];
  }
}

}  // namespace

void drop_words(PhiloxKey key, uint32_t step, uint64_t row, int64_t elements, uint32_t* words) {
  uint32_t buffer[4 * kBlocks];
  for (int64_t e = 0; e < elements; e += 4 * kBlocks) {
    philox_blocks(key, step, row, static_cast<uint32_t>(e / 4), buffer);
    std::copy_n(buffer, std::min(4 * kBlocks, elements - e), words + e);
  }
}

void drop_mask_row(PhiloxKey key, uint32_t step, uint64_t row, int64_t elements, uint32_t threshold,
                   float scale, float* mask) {
  uint32_t buffer[4 * kBlocks];
  for (int64_t e = 0; e < elements; e += 4 * kBlocks) {
    philox_blocks(key, step, row, static_cast<uint32_t>(e / 4), buffer);
    const int64_t count = std::min(4 * kBlocks, elements - e);
    for (int64_t i = 0; i < count; ++i) mask[e + i] = buffer[i] >= threshold ? scale : 0.0f;
  }
}

}  // namespace fovea::kernels::cpu
