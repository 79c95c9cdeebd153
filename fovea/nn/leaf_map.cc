// B batch, L patches, d sides, D width, G cells.
#include "fovea/nn/leaf_map.h"

#include <ATen/ops/embedding_bag.h>
#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "fovea/core/error.h"

namespace fovea::nn {
namespace {

constexpr size_t kMostSides = 3;

// A leaf of one sample against the grid. Sides that an image does not have are of one pixel.
class LeafOverlaps {
 public:
  LeafOverlaps(const int64_t* box, at::IntArrayRef grid, at::IntArrayRef cell) {
    const size_t missing = kMostSides - grid.size();
    for (size_t axis = 0; axis < grid.size(); ++axis) {
      const auto start = box[axis], end = start + box[grid.size() + axis];
      FOVEA_CHECK(start >= 0 && end >= start && end <= grid[axis] * cell[axis],
                  "a leaf from {} to {} along an axis of {} pixels; expected leaves of the image",
                  start, end, grid[axis] * cell[axis]);
      auto& side = sides_[missing + axis];
      side = {.start = start, .end = end, .cell = cell[axis], .cells = grid[axis]};
    }
  }

  // take(cell, share) for each cell that the leaf has pixels of.
  template <class Take>
  void for_each(Take take) const {
    const auto& [z, y, x] = sides_;
    const auto volume = static_cast<double>(z.cell * y.cell * x.cell);
    for (auto i = z.first(); i < z.last(); ++i) {
      for (auto j = y.first(); j < y.last(); ++j) {
        for (auto k = x.first(); k < x.last(); ++k) {
          const auto pixels = z.overlap(i) * y.overlap(j) * x.overlap(k);
          take((i * y.cells + j) * x.cells + k, static_cast<double>(pixels) / volume);
        }
      }
    }
  }

 private:
  struct Side {
    int64_t start = 0, end = 1, cell = 1, cells = 1;
    int64_t first() const { return start / cell; }
    int64_t last() const { return end > start ? (end + cell - 1) / cell : first(); }
    int64_t overlap(int64_t i) const {
      return std::min(end, (i + 1) * cell) - std::max(start, i * cell);
    }
  };
  std::array<Side, kMostSides> sides_;
};

}  // namespace

LeafCells cells_of_leaves(const at::Tensor& boxes, at::IntArrayRef grid, at::IntArrayRef cell) {
  const auto d = grid.size();
  FOVEA_CHECK(boxes.dim() == 4 && boxes.size(2) == 2 && boxes.size(3) == static_cast<int64_t>(d) &&
                  cell.size() == d && d <= kMostSides && boxes.scalar_type() == at::kLong,
              "boxes of shape [{}] on a grid of [{}]; expected [B, L, 2, {}] int64",
              fmt::join(boxes.sizes(), ", "), fmt::join(grid, ", "), d);
  const auto samples = boxes.size(0), length = boxes.size(1), cells = c10::multiply_integers(grid);
  const auto contiguous = boxes.contiguous();
  const auto overlaps_of = [&](int64_t patch) {
    const auto numbers = static_cast<int64_t>(2 * d);
    return LeafOverlaps(contiguous.const_data_ptr<int64_t>() + patch * numbers, grid, cell);
  };
  // Two passes: how many leaves each cell has, then which.
  std::vector<int64_t> next(static_cast<size_t>(samples * cells) + 1, 0);
  for (int64_t patch = 0; patch < samples * length; ++patch) {
    const auto first = patch / length * cells + 1;
    overlaps_of(patch).for_each([&](int64_t i, double) { next[first + i] += 1; });
  }
  for (size_t i = 1; i < next.size(); ++i) next[i] += next[i - 1];
  LeafCells result{.grid = grid.vec(),
                   .patches = at::empty({next.back()}, at::kLong),
                   .shares = at::empty({next.back()}, at::kFloat),
                   .offsets = at::empty({samples * cells}, at::kLong)};
  std::copy(next.begin(), next.end() - 1, result.offsets.mutable_data_ptr<int64_t>());
  auto* patches = result.patches.mutable_data_ptr<int64_t>();
  auto* shares = result.shares.mutable_data_ptr<float>();
  for (int64_t patch = 0; patch < samples * length; ++patch) {
    const auto first = patch / length * cells;
    overlaps_of(patch).for_each([&](int64_t i, double share) {
      const auto at = next[first + i]++;
      patches[at] = patch;
      shares[at] = static_cast<float>(share);
    });
  }
  return result;
}

LeafCells to_device(const LeafCells& cells, at::Device device) {
  return {.grid = cells.grid,
          .patches = cells.patches.to(device),
          .shares = cells.shares.to(device),
          .offsets = cells.offsets.to(device)};
}

at::Tensor tokens_on_cells(const at::Tensor& tokens, const LeafCells& cells) {
  // A bag is a cell. Its backward pass sorts by token, so it needs no atomic additions.
  constexpr int64_t kSum = 0;
  constexpr bool kScaleByFrequency = false, kSparse = false;
  const auto rows = tokens.flatten(0, 1).contiguous();  // [B * L, D]
  const auto [bags, offset2bag, bag_size, max_indices] =
      at::embedding_bag(rows, cells.patches, cells.offsets, kScaleByFrequency, kSum, kSparse,
                        cells.shares.to(rows.scalar_type()));  // [B * G, D]
  std::vector<int64_t> shape = {tokens.size(0), -1, tokens.size(2)};
  auto map = bags.view(shape).transpose(1, 2);  // [B, D, G]
  return map.unflatten(2, cells.grid);
}

}  // namespace fovea::nn
