#include "fovea/data/adaptive/leaf_sweep.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/axis_weights.h"

namespace fovea::data::patching {
namespace {

constexpr int64_t kSweepMargin = 64;  // elements behind a buffer: room for a vector

// How many rows of a patch are summed at the same time while the rows of its leaf pass by.
int64_t overlap_of(const AxisWeights& axis) {
  int64_t most = 1;
  for (int64_t j = 0; j < axis.out; ++j) {
    const int64_t end = axis.starts[static_cast<size_t>(j)] + axis.taps;
    while (j + most < axis.out && axis.starts[static_cast<size_t>(j + most)] < end) ++most;
  }
  return most;
}

void check_image_tree(const PatchTree& tree) {
  FOVEA_CHECK(tree.size.depth == 1 && !tree.leaves.empty(), "{} leaves over a depth of {}",
              tree.leaves.size(), tree.size.depth);
}

// Which leaves a walk meets: indices into tree.leaves, by their first row.
std::vector<int32_t> leaves_from_above(const PatchTree& tree) {
  std::vector<int32_t> order(tree.leaves.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return tree.leaves[static_cast<size_t>(a)].y < tree.leaves[static_cast<size_t>(b)].y;
  });
  return order;
}

}  // namespace

// A leaf that is larger than the patch both ways is summed row by row; any other is small enough to
// be held until it is complete.
template <class T>
struct LeafSweep<T>::OpenLeaf {
  int32_t index = 0;
  TreeBox box;
  bool is_summed = false;
  const AxisWeights* height = nullptr;
  const AxisWeights* width = nullptr;
  int64_t overlap = 0;
  int64_t next_row = 0;      // of the patch, the first that is not complete
  std::vector<float> sums;   // [overlap, W, C]
  std::vector<T> rows;       // [H, W, C]
  std::vector<float> token;  // [C, p^2]
};

template <class T>
LeafSweep<T>::LeafSweep(const PatchTree& tree, int64_t p, const ResampleRules& rules,
                        std::vector<float> scale, std::vector<float> shift, TakeToken take)
    : tree_(tree),
      p_(p),
      rules_(rules),
      scale_(std::move(scale)),
      shift_(std::move(shift)),
      take_(std::move(take)),
      order_(leaves_from_above(tree)) {
  check_image_tree(tree);
}

template <class T>
LeafSweep<T>::~LeafSweep() = default;

template <class T>
void LeafSweep<T>::add_row(int64_t y, const T* row) {
  const auto channels = static_cast<int64_t>(scale_.size());
  while (next_ < order_.size() && tree_.leaves[static_cast<size_t>(order_[next_])].y == y) {
    open(order_[next_++]);
  }
  for (size_t i = 0; i < open_.size();) {
    OpenLeaf& leaf = *open_[i];
    add_line(leaf, y - leaf.box.y, row + leaf.box.x * channels);
    if (y + 1 < leaf.box.y + leaf.box.height) {
      ++i;
      continue;
    }
    close(leaf);
    std::swap(open_[i], open_.back());
    free_.push_back(std::move(open_.back()));
    open_.pop_back();
  }
}

template <class T>
void LeafSweep<T>::open(int32_t index) {
  if (free_.empty()) free_.push_back(std::make_unique<OpenLeaf>());
  open_.push_back(std::move(free_.back()));
  free_.pop_back();
  OpenLeaf& leaf = *open_.back();
  const auto channels = static_cast<int64_t>(scale_.size());
  leaf.index = index;
  leaf.box = tree_.leaves[static_cast<size_t>(index)];
  leaf.is_summed = leaf.box.height > p_ && leaf.box.width > p_;
  leaf.height = &scratch_.axis(leaf.box.height, p_, rules_);
  leaf.width = &scratch_.axis(leaf.box.width, p_, rules_);
  leaf.next_row = 0;
  leaf.token.resize(static_cast<size_t>(channels * p_ * p_));
  const int64_t row = leaf.box.width * channels;
  if (leaf.is_summed) {
    leaf.overlap = overlap_of(*leaf.height);
    leaf.sums.resize(static_cast<size_t>(leaf.overlap * row + kSweepMargin));
  } else {
    leaf.rows.resize(static_cast<size_t>(leaf.box.height * row + kSweepMargin));
  }
}

// From its rows to its token, but for the sides.
template <class T>
Block<T> LeafSweep<T>::block_of(OpenLeaf& leaf) const {
  Block<T> block;
  block.channels = static_cast<int64_t>(scale_.size());
  block.in = leaf.rows.data();
  block.in_row = leaf.box.width * block.channels;
  block.out = leaf.token.data();
  block.out_channel = p_ * p_;
  block.out_row = p_;
  block.scale = scale_.data();
  block.shift = shift_.data();
  return block;
}

template <class T>
void LeafSweep<T>::add_line(OpenLeaf& leaf, int64_t y, const T* line) {
  const auto channels = static_cast<int64_t>(scale_.size());
  const int64_t count = leaf.box.width * channels;
  if (!leaf.is_summed) {
    std::copy_n(line, count, leaf.rows.data() + y * count);
    return;
  }
  const AxisWeights& height = *leaf.height;
  Block<T> block = block_of(leaf);
  block.width = leaf.width;
  for (int64_t j = leaf.next_row; j < p_ && height.starts[static_cast<size_t>(j)] <= y; ++j) {
    const int64_t tap = y - height.starts[static_cast<size_t>(j)];
    if (tap >= height.taps) continue;
    const float weight = height.weights[static_cast<size_t>(j * height.taps + tap)];
    float* sums = leaf.sums.data() + j % leaf.overlap * count;
    if (tap == 0 || weight != 0) add_weighted_line(line, weight, count, tap == 0, sums);
    if (tap + 1 < height.taps) continue;
    reduce_weighted_line(block, sums, leaf.token.data() + j * p_);
    leaf.next_row = j + 1;
  }
}

template <class T>
void LeafSweep<T>::close(OpenLeaf& leaf) {
  if (!leaf.is_summed) {
    Block<T> block = block_of(leaf);
    set_sides(block, leaf.box, patch_box(p_, false), rules_, scratch_);
    resample_block(block);
  }
  take_(leaf.index, leaf.token);
}

template class LeafSweep<uint8_t>;
template class LeafSweep<float>;

template <class T>
LeafRows<T>::LeafRows(const PatchTree& tree, int64_t p, std::optional<ResampleRules> rules,
                      GiveToken<T> give)
    : tree_(tree), p_(p), rules_(rules), give_(std::move(give)), order_(leaves_from_above(tree)) {
  check_image_tree(tree);
}

template <class T>
void LeafRows<T>::read(int64_t y, int64_t count, T* out) {
  const auto leaf_at = [&](int32_t index) { return tree_.leaves[static_cast<size_t>(index)]; };
  for (; next_ < order_.size() && leaf_at(order_[next_]).y < y + count; ++next_) {
    auto& token = open_[order_[next_]];
    token.resize(static_cast<size_t>(p_ * p_));
    give_(order_[next_], std::span<T>(token));
  }
  for (const auto& [index, token] : open_) {
    const TreeBox leaf = leaf_at(index);
    const int64_t first = std::max<int64_t>(leaf.y, y);
    const int64_t end = std::min<int64_t>(leaf.y + leaf.height, y + count);
    T* to = out + (first - y) * tree_.size.width + leaf.x;
    if constexpr (std::is_same_v<T, float>) {
      if (rules_) {
        resize(leaf, token.data(), first - leaf.y, end - first, to);
        continue;
      }
    }
    for (int64_t row = first; row < end; ++row, to += tree_.size.width) {
      const T* from = token.data() + nearest(row - leaf.y, p_, leaf.height, kLabelRule) * p_;
      for (int64_t x = 0; x < leaf.width; ++x) to[x] = from[nearest(x, p_, leaf.width, kLabelRule)];
    }
  }
  std::erase_if(open_, [&](const auto& entry) {
    const TreeBox leaf = leaf_at(entry.first);
    return leaf.y + leaf.height <= y + count;
  });
}

// Rows [first, first + rows) of a leaf.
template <class T>
void LeafRows<T>::resize(const TreeBox& leaf, const float* token, int64_t first, int64_t rows,
                         float* out) {
  Block<float> block;
  set_sides(block, patch_box(p_, false), leaf, *rules_, scratch_);
  const AxisWeights height = part_of_axis(*block.height, first, rows);
  block.height = &height;
  block.in = token;
  block.in_row = p_;
  block.out = out;
  block.out_row = tree_.size.width;
  resample_block(block);
}

template class LeafRows<int32_t>;
template class LeafRows<float>;

}  // namespace fovea::data::patching
