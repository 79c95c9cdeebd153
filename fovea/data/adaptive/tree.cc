#include "fovea/data/adaptive/tree.h"

#include <algorithm>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr int kMostTreeLevels = 20;
constexpr int64_t kLongestSide = int64_t{1} << 20;

struct Part {
  int32_t start = 0;
  int32_t size = 0;
};
using Parts = std::array<Part, 2>;

struct AxisSplit {
  Parts parts;
  int count = 1;
};

AxisSplit split_axis(int32_t start, int32_t size, int64_t longest, int64_t min_leaf) {
  AxisSplit split;
  split.parts[0] = {start, size};
  if (2 * int64_t{size} <= longest || size / 2 < min_leaf) return split;
  const int32_t end = start + size;
  const int32_t middle = (start + end) / 2;
  split.parts = {Part{start, middle - start}, Part{middle, end - middle}};
  split.count = 2;
  return split;
}

using Children = std::array<TreeBox, 8>;

// Returns how many there are; 1: the box cannot be split.
int split_box(const TreeBox& box, bool is_volume, int64_t min_leaf, Children& children) {
  const int64_t longest = box.longest_side();
  AxisSplit z;
  z.parts[0] = {box.z, box.depth};
  if (is_volume) z = split_axis(box.z, box.depth, longest, min_leaf);
  AxisSplit y = split_axis(box.y, box.height, longest, min_leaf);
  const AxisSplit x = split_axis(box.x, box.width, longest, min_leaf);
  if (!is_volume && y.count == 2) std::swap(y.parts[0], y.parts[1]);
  int count = 0;
  for (int k = 0; k < z.count; ++k) {
    for (int j = 0; j < y.count; ++j) {
      for (int i = 0; i < x.count; ++i) {
        children[static_cast<size_t>(count++)] = {z.parts[k].start, y.parts[j].start,
                                                  x.parts[i].start, z.parts[k].size,
                                                  y.parts[j].size,  x.parts[i].size};
      }
    }
  }
  return count;
}

class Growth {
 public:
  Growth(const NodeValues& values, const TreeOptions& options, PatchTree& tree,
         TreeScratch& scratch)
      : values_(values), options_(options), tree_(tree), heap_(scratch.heap) {}

  void run(const TreeBox& root) {
    heap_.clear();
    tree_.nodes.clear();
    add(root, 0, 0);
    int64_t num_leaves = 1;
    const int64_t max_depth = std::min<int64_t>(options_.max_depth, kMostTreeLevels);
    while (!heap_.empty()) {
      const auto best = heap_.front();
      const TreeNode node = tree_.nodes[static_cast<size_t>(best.node)];
      Children children;
      const int count = node.level >= max_depth
                            ? 1
                            : split_box(node.box, tree_.is_volume, options_.min_leaf, children);
      if (count == 1 && options_.stops_at_smallest) return;
      if (count > 1 && num_leaves + count - 1 > options_.fixed_length) return;
      std::pop_heap(heap_.begin(), heap_.end(), Later{options_.stops_at_smallest});
      heap_.pop_back();
      if (count == 1) continue;  // stays a leaf
      auto& parent = tree_.nodes[static_cast<size_t>(best.node)];
      parent.first_child = static_cast<int32_t>(tree_.nodes.size());
      parent.num_children = count;
      num_leaves += count - 1;
      const int shift = 61 - 3 * node.level;
      for (int i = 0; i < count; ++i) {
        add(children[static_cast<size_t>(i)], node.level + 1,
            best.path | static_cast<uint64_t>(i) << shift);
      }
    }
  }

 private:
  using Candidate = TreeScratch::Candidate;

  struct Later {
    bool ignores_size;
    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.value != b.value) return a.value < b.value;
      if (a.value == 0 && !ignores_size && a.voxels != b.voxels) return a.voxels < b.voxels;
      return a.path > b.path;
    }
  };

  void add(const TreeBox& box, int32_t level, uint64_t path) {
    const int64_t value = values_.value(box);
    const auto node = static_cast<int32_t>(tree_.nodes.size());
    tree_.nodes.push_back({box, level, -1, 0, value});
    heap_.push_back({value, box.voxels(), path, node});
    std::push_heap(heap_.begin(), heap_.end(), Later{options_.stops_at_smallest});
  }

  const NodeValues& values_;
  const TreeOptions& options_;
  PatchTree& tree_;
  std::vector<Candidate>& heap_;
};

void collect_leaves(PatchTree& tree, std::vector<int32_t>& stack) {
  tree.leaves.clear();
  stack.assign(1, 0);
  while (!stack.empty()) {
    const TreeNode& node = tree.nodes[static_cast<size_t>(stack.back())];
    stack.pop_back();
    if (node.num_children == 0) {
      tree.leaves.push_back(node.box);
      continue;
    }
    for (int32_t i = node.num_children - 1; i >= 0; --i) stack.push_back(node.first_child + i);
  }
}

}  // namespace

int64_t TreeBox::longest_side() const { return std::max({depth, height, width}); }

void grow_tree(VolumeSize size, bool is_volume, const NodeValues& values,
               const TreeOptions& options, PatchTree& tree, TreeScratch& scratch) {
  const int64_t longest = std::max({size.depth, size.height, size.width});
  const int64_t shortest = std::min({size.depth, size.height, size.width});
  FOVEA_CHECK(shortest > 0 && longest <= kLongestSide && (is_volume || size.depth == 1),
              "a tree over {}x{}x{}; expected sides of 1 to {}, and depth 1 for an image",
              size.depth, size.height, size.width, kLongestSide);
  tree.size = size;
  tree.is_volume = is_volume;
  const TreeBox root = {0,
                        0,
                        0,
                        static_cast<int32_t>(size.depth),
                        static_cast<int32_t>(size.height),
                        static_cast<int32_t>(size.width)};
  Growth(values, options, tree, scratch).run(root);
  collect_leaves(tree, scratch.stack);
}

}  // namespace fovea::data
