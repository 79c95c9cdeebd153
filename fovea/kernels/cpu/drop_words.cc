#include "fovea/kernels/cpu/drop_words.h"

#include <algorithm>

#include "fovea/core/philox_blocks.h"

namespace fovea::kernels::cpu {
namespace {

constexpr int64_t kWords = 4 * kPhiloxBlocks;

// Words e to e + kWords of a row.
void row_words(PhiloxKey key, uint32_t step, uint64_t row, int64_t e, uint32_t* words) {
  philox_blocks(key,
                {static_cast<uint32_t>(e / 4), static_cast<uint32_t>(row),
                 static_cast<uint32_t>(row >> 32), step},
                words);
}

}  // namespace

void drop_words(PhiloxKey key, uint32_t step, uint64_t row, int64_t elements, uint32_t* words) {
  uint32_t buffer[kWords];
  for (int64_t e = 0; e < elements; e += kWords) {
    row_words(key, step, row, e, buffer);
    std::copy_n(buffer, std::min(kWords, elements - e), words + e);
  }
}

void drop_mask_row(PhiloxKey key, uint32_t step, uint64_t row, int64_t elements, uint32_t threshold,
                   float scale, float* mask) {
  uint32_t buffer[kWords];
  for (int64_t e = 0; e < elements; e += kWords) {
    row_words(key, step, row, e, buffer);
    const int64_t count = std::min(kWords, elements - e);
    for (int64_t i = 0; i < count; ++i) mask[e + i] = buffer[i] >= threshold ? scale : 0.0f;
  }
}

}  // namespace fovea::kernels::cpu
