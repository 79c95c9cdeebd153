// Quadtrees over images and octrees over volumes, grown where the detail is.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "fovea/data/volume/volume.h"

namespace fovea::data {

// A part of a volume, in voxels: [z, z + depth) x [y, y + height) x [x, x + width). Of an image: z
// 0 and depth 1.
struct TreeBox {
  int32_t z = 0;
  int32_t y = 0;
  int32_t x = 0;
  int32_t depth = 1;
  int32_t height = 0;
  int32_t width = 0;
  bool operator==(const TreeBox&) const = default;

  int64_t voxels() const { return int64_t{depth} * height * width; }
  int64_t longest_side() const;
};

struct TreeNode {
  TreeBox box;
  int32_t level = 0;         // the root's is 0
  int32_t first_child = -1;  // its children stand one behind the other; -1: a leaf
  int32_t num_children = 0;
  int64_t value = 0;  // how much detail the box holds
};

// Every voxel lies in exactly one leaf.
struct PatchTree {
  VolumeSize size;
  bool is_volume = false;       // an octree
  std::vector<TreeNode> nodes;  // the root first
  std::vector<TreeBox> leaves;  // in the order of the patches
};

// How much detail a part of the image holds, at least 0.
class NodeValues {
 public:
  virtual ~NodeValues() = default;
  virtual int64_t value(const TreeBox& box) const = 0;
};

struct TreeOptions {
  int64_t fixed_length = 196;  // most leaves
  int64_t min_leaf = 2;        // no side is split into parts below it
  int64_t max_depth = 20;      // at most 20
  // UCF-VIT: growth ends as soon as the node with most detail cannot be split, and among nodes
  // without any detail the first one is split, however small.
  bool stops_at_smallest = false;
};

// Buffers that a thread keeps from tree to tree.
struct TreeScratch {
  struct Candidate {
    int64_t value;
    int64_t voxels;
    uint64_t path;  // three bits a level from the top: the order of leaves
    int32_t node;
  };
  std::vector<Candidate> heap;
  std::vector<int32_t> stack;
};

// Grows a tree: the leaf with most detail is split, the first of them where several have the same,
// until one more split would give more than fixed_length leaves. Leaves without any detail go last,
// larger ones first.
//
// A split halves each side that is longer than half of the longest one and has room for min_leaf
// twice, at the middle rounded down: squares and cubes give 4 and 8 children (so 3 n + 1 and 7 n +
// 1 leaves), and parts of any other shape come close to squares and cubes on the way down. Order of
// children: z and x ascending; y descending in images and ascending in volumes, as in UCF-VIT.
//
// O(area of `values` once + L log L). Throws Error where a side is 0 or above 2^20.
void grow_tree(VolumeSize size, bool is_volume, const NodeValues& values,
               const TreeOptions& options, PatchTree& tree, TreeScratch& scratch);

}  // namespace fovea::data
