#include "fovea/data/adaptive/hysteresis.h"

#include <cstddef>

namespace fovea::data::patching {
namespace {

// Strong pixels of the three rows around word w of row y, taken together.
uint64_t column(const uint64_t* strong, int64_t height, int64_t words, int64_t y, int64_t w) {
  if (w < 0 || w >= words) return 0;
  const uint64_t* at = strong + y * words + w;
  return at[0] | (y > 0 ? at[-words] : 0) | (y + 1 < height ? at[words] : 0);
}

bool grow_word(int64_t height, int64_t words, const uint64_t* candidates, uint64_t* strong,
               int64_t y, int64_t w) {
  uint64_t& here = strong[y * words + w];
  const uint64_t allowed = candidates[y * words + w];
  if ((allowed & ~here) == 0) return false;
  const uint64_t near = column(strong, height, words, y, w);
  const uint64_t from_left = column(strong, height, words, y, w - 1) >> 63;
  const uint64_t from_right = column(strong, height, words, y, w + 1) << 63;
  uint64_t grown = here | ((near | near << 1 | near >> 1 | from_left | from_right) & allowed);
  if (grown == here) return false;
  for (uint64_t last = 0; last != grown;) {
    last = grown;
    grown |= (grown << 1 | grown >> 1) & allowed;
  }
  here = grown;
  return true;
}

bool grow_row(int64_t height, int64_t words, const uint64_t* candidates, uint64_t* strong,
              int64_t y) {
  bool has_grown = false;
  for (int64_t w = 0; w < words; ++w) {
    has_grown |= grow_word(height, words, candidates, strong, y, w);
  }
  if (!has_grown) return false;
  for (bool is_growing = true; is_growing;) {
    is_growing = false;
    for (int64_t w = words - 1; w >= 0; --w) {
      is_growing |= grow_word(height, words, candidates, strong, y, w);
    }
    for (int64_t w = 0; w < words; ++w) {
      is_growing |= grow_word(height, words, candidates, strong, y, w);
    }
  }
  return true;
}

}  // namespace

void grow_edges(int64_t height, int64_t words, const uint64_t* candidates, uint64_t* strong,
                std::vector<uint8_t>& is_dirty) {
  is_dirty.assign(static_cast<size_t>(height), 1);
  bool is_growing = true;
  const auto visit = [&](int64_t y) {
    if (is_dirty[static_cast<size_t>(y)] == 0) return;
    is_dirty[static_cast<size_t>(y)] = 0;
    if (!grow_row(height, words, candidates, strong, y)) return;
    is_growing = true;
    if (y > 0) is_dirty[static_cast<size_t>(y - 1)] = 1;
    if (y + 1 < height) is_dirty[static_cast<size_t>(y + 1)] = 1;
  };
  while (is_growing) {  // down and up, until a round finds nothing
    is_growing = false;
    for (int64_t y = 0; y < height; ++y) visit(y);
    for (int64_t y = height - 1; y >= 0; --y) visit(y);
  }
}

}  // namespace fovea::data::patching
