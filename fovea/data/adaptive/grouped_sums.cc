#include "fovea/data/adaptive/grouped_sums.h"

#include <algorithm>
#include <bit>

#include "fovea/core/simd.h"
#include "fovea/data/adaptive/huge_pages.h"

namespace fovea::data::patching {
namespace {

constexpr int64_t kBitGroup = 64;   // a word
constexpr int64_t kCellGroup = 16;  // so that the table takes a 128th of the cells' memory

// Bits [left, right) of each of the rows, which are `words` apart. left < right.
FOVEA_SIMD uint64_t count_bits(const uint64_t* bits, int64_t words, const Span2& span) {
  const int64_t first = span.left / 64;
  const int64_t last = (span.right - 1) / 64;
  const uint64_t first_mask = ~uint64_t{0} << (span.left % 64);
  const uint64_t last_mask = ~uint64_t{0} >> (63 - (span.right - 1) % 64);
  uint64_t count = 0;
  for (int64_t y = span.top; y < span.bottom; ++y) {
    const uint64_t* row = bits + y * words;
    if (first == last) {
      count += static_cast<uint64_t>(std::popcount(row[first] & first_mask & last_mask));
      continue;
    }
    count += static_cast<uint64_t>(std::popcount(row[first] & first_mask));
    for (int64_t w = first + 1; w < last; ++w) {
      count += static_cast<uint64_t>(std::popcount(row[w]));
    }
    count += static_cast<uint64_t>(std::popcount(row[last] & last_mask));
  }
  return count;
}

struct BitCounter {
  const uint64_t* bits;
  int64_t words;
  uint64_t operator()(const Span2& span) const {
    if (span.left >= span.right) return 0;
    return count_bits(bits, words, span);
  }
};

struct CellAdder {
  const uint32_t* cells;
  int64_t width;
  uint64_t operator()(const Span2& span) const {
    uint64_t sum = 0;
    for (int64_t y = span.top; y < span.bottom; ++y) {
      for (int64_t x = span.left; x < span.right; ++x) sum += cells[y * width + x];
    }
    return sum;
  }
};

void append_cuts(int64_t start, int64_t size, int64_t min_leaf, std::vector<int32_t>& cuts) {
  if (size / 2 < min_leaf) {
    cuts.push_back(static_cast<int32_t>(start + size));
    return;
  }
  const int64_t middle = (2 * start + size) / 2;
  append_cuts(start, middle - start, min_leaf, cuts);
  append_cuts(middle, start + size - middle, min_leaf, cuts);
}

// Number of cuts up to each place.
std::vector<int32_t> places_of(const std::vector<int32_t>& cuts) {
  std::vector<int32_t> places(static_cast<size_t>(cuts.back()) + 1);
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (int32_t at = cuts[i]; at < cuts[i + 1]; ++at) {
      places[static_cast<size_t>(at)] = static_cast<int32_t>(i);
    }
  }
  places.back() = static_cast<int32_t>(cuts.size() - 1);
  return places;
}

}  // namespace

void BitSums::build(const uint64_t* bits, int64_t height, int64_t width) {
  bits_ = bits;
  words_ = (width + 63) / 64;
  table_.build(height, width, kBitGroup, BitCounter{bits_, words_});
}

uint64_t BitSums::sum(const Span2& span) const {
  return table_.sum(span, BitCounter{bits_, words_});
}

std::vector<int32_t> cuts_of(int64_t size, int64_t min_leaf) {
  std::vector<int32_t> cuts = {0};
  append_cuts(0, size, min_leaf, cuts);
  return cuts;
}

void CellSums::start(ImageSize size, int64_t min_leaf) {
  if (size != size_ || min_leaf != min_leaf_) {
    columns_ = cuts_of(size.width, min_leaf);
    column_of_ = places_of(columns_);
    row_of_ = places_of(cuts_of(size.height, min_leaf));
    width_ = static_cast<int64_t>(columns_.size()) - 1;
    size_ = size;
    min_leaf_ = min_leaf;
  }
  band_.assign(static_cast<size_t>(size.width), 0);
  resize_large(cells_, static_cast<size_t>(row_of_.back() * width_));
}

void CellSums::end_row(int64_t row) {
  uint32_t* sums = cells_.data() + row * width_;
  for (size_t i = 0; i + 1 < columns_.size(); ++i) {
    uint32_t sum = 0;
    for (int32_t x = columns_[i]; x < columns_[i + 1]; ++x) sum += band_[static_cast<size_t>(x)];
    *sums++ = sum;
  }
  std::fill(band_.begin(), band_.end(), 0u);
}

void CellSums::finish() {
  const int64_t height = static_cast<int64_t>(cells_.size()) / width_;
  table_.build(height, width_, kCellGroup, CellAdder{cells_.data(), width_});
}

uint64_t CellSums::sum(int32_t y, int32_t x, int32_t height, int32_t width) const {
  const Span2 span = {row_of_[static_cast<size_t>(y)], row_of_[static_cast<size_t>(y + height)],
                      column_of_[static_cast<size_t>(x)],
                      column_of_[static_cast<size_t>(x + width)]};
  return table_.sum(span, CellAdder{cells_.data(), width_});
}

}  // namespace fovea::data::patching
