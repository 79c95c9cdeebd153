// Sums over boxes of a map that is too large for a summed-area table of its own: a table over
// groups of elements, and the elements themselves along the edges of a box.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fovea/data/image/image_view.h"

namespace fovea::data::patching {

// Elements [top, bottom) x [left, right).
struct Span2 {
  int64_t top = 0;
  int64_t bottom = 0;
  int64_t left = 0;
  int64_t right = 0;
};

class GroupTable {
 public:
  // direct(span): the sum over a span that lies within one group of `group` x `group` elements.
  template <class Direct>
  void build(int64_t height, int64_t width, int64_t group, const Direct& direct) {
    group_ = group;
    const int64_t rows = height / group;
    const int64_t columns = width / group;  // whole groups only
    stride_ = columns + 1;
    sums_.assign(static_cast<size_t>((rows + 1) * stride_), 0);
    for (int64_t y = 0; y < rows; ++y) {
      uint64_t* row = sums_.data() + (y + 1) * stride_;
      uint64_t total = 0;
      for (int64_t x = 0; x < columns; ++x) {
        total += direct(Span2{y * group, (y + 1) * group, x * group, (x + 1) * group});
        row[x + 1] = row[x + 1 - stride_] + total;
      }
    }
  }

  // direct: as in build, for any span.
  template <class Direct>
  uint64_t sum(const Span2& span, const Direct& direct) const {
    const int64_t top = (span.top + group_ - 1) / group_;
    const int64_t bottom = span.bottom / group_;
    const int64_t left = (span.left + group_ - 1) / group_;
    const int64_t right = span.right / group_;
    if (top >= bottom || left >= right) return direct(span);
    const Span2 inner = {top * group_, bottom * group_, left * group_, right * group_};
    return at(bottom, right) - at(top, right) - at(bottom, left) + at(top, left) +
           direct(Span2{span.top, inner.top, span.left, span.right}) +
           direct(Span2{inner.bottom, span.bottom, span.left, span.right}) +
           direct(Span2{inner.top, inner.bottom, span.left, inner.left}) +
           direct(Span2{inner.top, inner.bottom, inner.right, span.right});
  }

 private:
  uint64_t at(int64_t y, int64_t x) const { return sums_[static_cast<size_t>(y * stride_ + x)]; }

  int64_t group_ = 1;
  int64_t stride_ = 1;
  std::vector<uint64_t> sums_;  // [rows + 1, columns + 1]
};

// Bits that are set: [H, ceil(W / 64)] words, lowest bit first, which outlive this.
class BitSums {
 public:
  void build(const uint64_t* bits, int64_t height, int64_t width);
  uint64_t sum(const Span2& span) const;

 private:
  const uint64_t* bits_ = nullptr;
  int64_t words_ = 0;
  GroupTable table_;
};

// Where a side of `size` pixels can be cut by a tree whose parts are never below `min_leaf`, in
// ascending order, with 0 and `size`. The split of a part is at its middle, rounded down, whatever
// the other sides are, so every box of every such tree begins and ends at one of these.
std::vector<int32_t> cuts_of(int64_t size, int64_t min_leaf);

// Sums of numbers over the cells between the cuts, gathered row by row.
class CellSums {
 public:
  // Of trees whose parts are never below min_leaf, over numbers whose sums in a square of that side
  // stay below 2^31.
  void start(ImageSize size, int64_t min_leaf);
  // Row y of the numbers, each `step` elements from the one before; every y once, ascending.
  template <class Value>
  void add_row(int64_t y, const Value* values, int64_t step) {
    if (step == 1) {
      for (size_t x = 0; x < band_.size(); ++x) band_[x] += static_cast<uint32_t>(values[x]);
    } else {
      for (size_t x = 0; x < band_.size(); ++x) {
        band_[x] += static_cast<uint32_t>(values[static_cast<int64_t>(x) * step]);
      }
    }
    const auto row = row_of_[static_cast<size_t>(y)];
    if (row_of_[static_cast<size_t>(y) + 1] != row) end_row(row);
  }
  void finish();
  // A box that begins and ends at cuts.
  uint64_t sum(int32_t y, int32_t x, int32_t height, int32_t width) const;

 private:
  void end_row(int64_t row);

  ImageSize size_;
  int64_t min_leaf_ = 0;
  int64_t width_ = 0;               // cells in a row
  std::vector<int32_t> columns_;    // cuts along W
  std::vector<int32_t> row_of_;     // [H + 1]: number of cuts up to there
  std::vector<int32_t> column_of_;  // [W + 1]
  std::vector<uint32_t> band_;      // [W] of the row of cells that is under way
  std::vector<uint32_t> cells_;     // [rows, columns]
  GroupTable table_;
};

}  // namespace fovea::data::patching
