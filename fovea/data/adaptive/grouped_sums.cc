#include "fovea/data/adaptive/grouped_sums.h"

#include <algorithm>
#include <bit>

#include "fovea/core/simd.h"
#include "fovea/data/adaptive/huge_pages.h"

namespace fovea::data::patching {
namespace {

// Logarithms of the sides of groups: a word of bits; of cells as many as keep the table small.
constexpr std::array<int, 3> kBitGroup = {0, 6, 6};
constexpr std::array<int, 3> kImageGroup = {0, 4, 4};
constexpr std::array<int, 3> kVolumeGroup = {2, 2, 2};

// Bits of one slice, rows `words` apart.
FOVEA_SIMD uint64_t count_bits(const uint64_t* bits, int64_t words, const Span3& span) {
  const int64_t left = span.first[2];
  const int64_t right = span.last[2] - 1;
  const int64_t first = left / 64;
  const int64_t last = right / 64;
  const uint64_t first_mask = ~uint64_t{0} << (left % 64);
  const uint64_t last_mask = ~uint64_t{0} >> (63 - right % 64);
  uint64_t count = 0;
  for (int64_t y = span.first[1]; y < span.last[1]; ++y) {
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
  uint64_t operator()(const Span3& span) const { return count_bits(bits, words, span); }
};

struct CellAdder {
  const uint32_t* cells;
  const std::array<int64_t, 3>& counts;
  uint64_t operator()(const Span3& span) const {
    uint64_t sum = 0;
    for (int64_t z = span.first[0]; z < span.last[0]; ++z) {
      for (int64_t y = span.first[1]; y < span.last[1]; ++y) {
        const uint32_t* row = cells + (z * counts[1] + y) * counts[2];
        for (int64_t x = span.first[2]; x < span.last[2]; ++x) sum += row[x];
      }
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
  table_.build({1, height, width}, kBitGroup, BitCounter{bits_, words_});
}

uint64_t BitSums::sum(const TreeBox& box) const {
  const Span3 span = {{0, box.y, box.x}, {1, box.y + box.height, box.x + box.width}};
  return table_.sum(span, BitCounter{bits_, words_});
}

std::vector<int32_t> cuts_of(int64_t size, int64_t min_leaf) {
  std::vector<int32_t> cuts = {0};
  append_cuts(0, size, min_leaf, cuts);
  return cuts;
}

void CellSums::start(VolumeSize size, int64_t min_leaf) {
  if (size != size_ || min_leaf != min_leaf_) {
    columns_ = cuts_of(size.width, min_leaf);
    cells_of_ = {places_of(cuts_of(size.depth, min_leaf)),
                 places_of(cuts_of(size.height, min_leaf)), places_of(columns_)};
    for (size_t a = 0; a < 3; ++a) counts_[a] = cells_of_[a].back();
    size_ = size;
    min_leaf_ = min_leaf;
  }
  band_.assign(static_cast<size_t>(size.width), 0);
  resize_large(cells_, static_cast<size_t>(counts_[0] * counts_[1] * counts_[2]));
}

void CellSums::end_row(int64_t z, int64_t y) {
  const bool is_first = z == 0 || cell_of(0, z) != cell_of(0, z - 1);
  uint32_t* sums = cells_.data() + (cell_of(0, z) * counts_[1] + cell_of(1, y)) * counts_[2];
  for (size_t i = 0; i + 1 < columns_.size(); ++i) {
    uint32_t sum = is_first ? 0u : *sums;
    for (int32_t x = columns_[i]; x < columns_[i + 1]; ++x) sum += band_[static_cast<size_t>(x)];
    *sums++ = sum;
  }
  std::fill(band_.begin(), band_.end(), 0u);
}

void CellSums::finish() {
  table_.build(counts_, size_.depth == 1 ? kImageGroup : kVolumeGroup,
               CellAdder{cells_.data(), counts_});
}

uint64_t CellSums::sum(const TreeBox& box) const {
  const Span3 span = {{cell_of(0, box.z), cell_of(1, box.y), cell_of(2, box.x)},
                      {cell_of(0, box.z + box.depth), cell_of(1, box.y + box.height),
                       cell_of(2, box.x + box.width)}};
  return table_.sum(span, CellAdder{cells_.data(), counts_});
}

}  // namespace fovea::data::patching
