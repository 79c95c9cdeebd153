// Sums over boxes of a map that is too large for a summed-area table of its own: a table over
// groups of elements, and the elements themselves along the edges of a box.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fovea/data/adaptive/tree.h"

namespace fovea::data::patching {

// Elements [first[a], last[a]) along each axis a of a map [D, H, W].
struct Span3 {
  std::array<int64_t, 3> first{};
  std::array<int64_t, 3> last{};
};

class GroupTable {
 public:
  // Of groups with 2^shifts[a] elements along axis a. direct(span): the sum over a span.
  template <class Direct>
  void build(const std::array<int64_t, 3>& size, const std::array<int, 3>& shifts,
             const Direct& direct) {
    shifts_ = shifts;
    std::array<int64_t, 3> counts{};  // whole groups only
    for (size_t a = 0; a < 3; ++a) counts[a] = size[a] >> shifts[a];
    stride_ = counts[2] + 1;
    plane_ = stride_ * (counts[1] + 1);
    sums_.assign(static_cast<size_t>((counts[0] + 1) * plane_), 0);
    std::array<int64_t, 3> at{};
    for (at[0] = 0; at[0] < counts[0]; ++at[0]) {
      for (at[1] = 0; at[1] < counts[1]; ++at[1]) {
        uint64_t* row = sums_.data() + (at[0] + 1) * plane_ + (at[1] + 1) * stride_ + 1;
        uint64_t total = 0;
        for (at[2] = 0; at[2] < counts[2]; ++at[2], ++row) {
          total += direct(group_at(at));
          row[0] = row[-stride_] + row[-plane_] - row[-plane_ - stride_] + total;
        }
      }
    }
  }

  // direct: as in build.
  template <class Direct>
  uint64_t sum(const Span3& span, const Direct& direct) const {
    Span3 groups, inner;
    for (size_t a = 0; a < 3; ++a) {
      groups.first[a] = (span.first[a] + (int64_t{1} << shifts_[a]) - 1) >> shifts_[a];
      groups.last[a] = span.last[a] >> shifts_[a];
      if (groups.first[a] >= groups.last[a]) return direct(span);
      inner.first[a] = groups.first[a] << shifts_[a];
      inner.last[a] = groups.last[a] << shifts_[a];
    }
    uint64_t sum = sum_of_groups(groups);
    Span3 rest = span;  // what is left of the shell around the groups: a slab on each side
    for (size_t a = 0; a < 3; ++a) {
      Span3 slab = rest;
      slab.last[a] = inner.first[a];
      if (slab.first[a] < slab.last[a]) sum += direct(slab);
      slab.first[a] = inner.last[a];
      slab.last[a] = rest.last[a];
      if (slab.first[a] < slab.last[a]) sum += direct(slab);
      rest.first[a] = inner.first[a];
      rest.last[a] = inner.last[a];
    }
    return sum;
  }

 private:
  Span3 group_at(const std::array<int64_t, 3>& at) const {
    Span3 span;
    for (size_t a = 0; a < 3; ++a) {
      span.first[a] = at[a] << shifts_[a];
      span.last[a] = (at[a] + 1) << shifts_[a];
    }
    return span;
  }

  uint64_t sum_before(const Span3& groups, int64_t z) const {
    const uint64_t* top = sums_.data() + z * plane_ + groups.first[1] * stride_;
    const uint64_t* bottom = top + (groups.last[1] - groups.first[1]) * stride_;
    return bottom[groups.last[2]] - bottom[groups.first[2]] - top[groups.last[2]] +
           top[groups.first[2]];
  }
  uint64_t sum_of_groups(const Span3& groups) const {
    return sum_before(groups, groups.last[0]) - sum_before(groups, groups.first[0]);
  }

  std::array<int, 3> shifts_{};
  int64_t stride_ = 1;
  int64_t plane_ = 1;
  std::vector<uint64_t> sums_;  // Crow 1984: [planes + 1, rows + 1, columns + 1]
};

// Bits that are set: [H, ceil(W / 64)] words, lowest bit first, which outlive this.
class BitSums {
 public:
  void build(const uint64_t* bits, int64_t height, int64_t width);
  uint64_t sum(const TreeBox& box) const;

 private:
  const uint64_t* bits_ = nullptr;
  int64_t words_ = 0;
  GroupTable table_;
};

// Where a side of `size` pixels can be cut by a tree whose parts are never below `min_leaf`, in
// ascending order, with 0 and `size`. The split of a part is at its middle, rounded down, whatever
// the other sides are, so every box of every such tree begins and ends at one of these.
std::vector<int32_t> cuts_of(int64_t size, int64_t min_leaf);

// Sums of numbers over the cells between the cuts of an image or a volume, gathered row by row.
class CellSums {
 public:
  // Of trees whose parts are never below min_leaf, over numbers whose sums in a square, or cube, of
  // that side stay below 2^32.
  void start(VolumeSize size, int64_t min_leaf);
  // Row y of slice z of the numbers, each `step` elements from the one before; every row once,
  // slice by slice, y ascending.
  template <class Value>
  void add_row(int64_t z, int64_t y, const Value* values, int64_t step) {
    if (step == 1) {
      for (size_t x = 0; x < band_.size(); ++x) band_[x] += static_cast<uint32_t>(values[x]);
    } else {
      for (size_t x = 0; x < band_.size(); ++x) {
        band_[x] += static_cast<uint32_t>(values[static_cast<int64_t>(x) * step]);
      }
    }
    if (cell_of(1, y + 1) != cell_of(1, y)) end_row(z, y);
  }
  void finish();
  // A box that begins and ends at cuts.
  uint64_t sum(const TreeBox& box) const;

 private:
  int64_t cell_of(size_t axis, int64_t at) const {
    return cells_of_[axis][static_cast<size_t>(at)];
  }
  void end_row(int64_t z, int64_t y);

  VolumeSize size_;
  int64_t min_leaf_ = 0;
  std::array<int64_t, 3> counts_{};               // cells along each axis
  std::array<std::vector<int32_t>, 3> cells_of_;  // [D + 1], ...: number of cuts up to there
  std::vector<int32_t> columns_;                  // cuts along W
  std::vector<uint32_t> band_;                    // [W] of the row of cells that is under way
  std::vector<uint32_t> cells_;                   // [D, H, W] of cells
  GroupTable table_;
};

}  // namespace fovea::data::patching
