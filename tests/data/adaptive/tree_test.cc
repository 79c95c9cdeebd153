#include "fovea/data/adaptive/tree.h"

#include <gtest/gtest.h>

#include "fovea/core/philox.h"
#include "fovea/data/adaptive/grouped_sums.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

// Values of single voxels, summed the slow way.
class PlainValues : public NodeValues {
 public:
  PlainValues(VolumeSize size, double density, uint64_t seed)
      : size_(size), map(static_cast<size_t>(size.voxels())) {
    RandomStream random({7, 8}, seed);
    for (uint8_t& value : map) value = random.bernoulli(density) ? 1 + random.below(3) : 0;
  }
  int64_t value(const TreeBox& box) const override {
    ++num_calls;
    int64_t sum = 0;
    for (int64_t z = box.z; z < box.z + box.depth; ++z) {
      for (int64_t y = box.y; y < box.y + box.height; ++y) {
        for (int64_t x = box.x; x < box.x + box.width; ++x) {
          sum += map[(z * size_.height + y) * size_.width + x];
        }
      }
    }
    return sum;
  }

 private:
  VolumeSize size_;

 public:
  std::vector<uint8_t> map;
  mutable int64_t num_calls = 0;
};

void expect_covers_once(const PatchTree& tree) {
  std::vector<uint8_t> covered(static_cast<size_t>(tree.size.voxels()));
  for (const TreeBox& leaf : tree.leaves) {
    for (int64_t z = leaf.z; z < leaf.z + leaf.depth; ++z) {
      for (int64_t y = leaf.y; y < leaf.y + leaf.height; ++y) {
        for (int64_t x = leaf.x; x < leaf.x + leaf.width; ++x) {
          ++covered[(z * tree.size.height + y) * tree.size.width + x];
        }
      }
    }
  }
  EXPECT_EQ(covered, std::vector<uint8_t>(covered.size(), 1));
}

PatchTree grow(VolumeSize size, const NodeValues& values, const TreeOptions& options) {
  PatchTree tree;
  TreeScratch scratch;
  grow_tree(size, size.depth > 1, values, options, tree, scratch);
  return tree;
}

TEST(TreeTest, CoversEveryVoxelOnceWhateverTheShape) {
  const std::vector<VolumeSize> sizes = {{1, 64, 64},  {1, 37, 53}, {1, 100, 7},  {1, 1, 90},
                                         {16, 16, 16}, {5, 40, 40}, {13, 21, 34}, {1, 1, 1}};
  for (const VolumeSize& size : sizes) {
    for (const int64_t length : {1, 2, 9, 50, 400}) {
      for (const int64_t min_leaf : {1, 2, 4}) {
        const PlainValues values(size, 0.1, static_cast<uint64_t>(length));
        const auto tree = grow(size, values, {.fixed_length = length, .min_leaf = min_leaf});
        EXPECT_LE(static_cast<int64_t>(tree.leaves.size()), length);
        expect_covers_once(tree);
        for (const TreeBox& leaf : tree.leaves) {
          const int64_t shortest_of_root =
              std::min({size.depth > 1 ? size.depth : size.height, size.height, size.width});
          const int64_t shortest =
              std::min({size.depth > 1 ? leaf.depth : leaf.height, leaf.height, leaf.width});
          EXPECT_GE(shortest, std::min(min_leaf, shortest_of_root));
        }
      }
    }
  }
}

TEST(TreeTest, SquaresGiveThreeNPlusOneLeavesAndCubesSevenNPlusOne) {
  for (int64_t length = 1; length < 40; ++length) {
    const PlainValues flat({1, 64, 64}, 0.3, 1);
    EXPECT_EQ(grow({1, 64, 64}, flat, {.fixed_length = length}).leaves.size(),
              static_cast<size_t>((length - 1) / 3 * 3 + 1));
    const PlainValues deep({16, 16, 16}, 0.3, 1);
    EXPECT_EQ(grow({16, 16, 16}, deep, {.fixed_length = length}).leaves.size(),
              static_cast<size_t>((length - 1) / 7 * 7 + 1));
  }
}

// Parts of any shape come close to squares on the way down.
TEST(TreeTest, LongImagesBecomeSquares) {
  const PlainValues values({1, 16, 128}, 0.3, 1);
  const auto tree = grow({1, 16, 128}, values, {.fixed_length = 8, .min_leaf = 2});
  ASSERT_EQ(tree.leaves.size(), 8u);
  for (const TreeBox& leaf : tree.leaves) EXPECT_EQ(leaf.width, 16);
}

// One bright pixel: children in UCF-VIT's order, y descending and x ascending.
TEST(TreeTest, OrderOfChildren) {
  PlainValues values({1, 8, 8}, 0, 1);
  values.map[0] = 1;
  const auto flat = grow({1, 8, 8}, values, {.fixed_length = 7});
  const std::vector<TreeBox> expected = {{0, 4, 0, 1, 4, 4}, {0, 4, 4, 1, 4, 4}, {0, 2, 0, 1, 2, 2},
                                         {0, 2, 2, 1, 2, 2}, {0, 0, 0, 1, 2, 2}, {0, 0, 2, 1, 2, 2},
                                         {0, 0, 4, 1, 4, 4}};
  EXPECT_EQ(flat.leaves, expected);
  const PlainValues cube({4, 4, 4}, 0, 1);
  const auto deep = grow({4, 4, 4}, cube, {.fixed_length = 8});
  ASSERT_EQ(deep.leaves.size(), 8u);
  for (int32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(deep.leaves[i], (TreeBox{i / 4 * 2, i / 2 % 2 * 2, i % 2 * 2, 2, 2, 2}));
  }
}

TEST(TreeTest, BlankImagesAreSplitEvenlyAndUpstreamsWayStopsEarly) {
  const PlainValues values({1, 256, 256}, 0, 1);
  const auto tree = grow({1, 256, 256}, values, {.fixed_length = 64});
  ASSERT_EQ(tree.leaves.size(), 64u);
  for (const TreeBox& leaf : tree.leaves) EXPECT_EQ(leaf.width, 32);
  const auto upstream =
      grow({1, 256, 256}, values, {.fixed_length = 196, .stops_at_smallest = true});
  EXPECT_EQ(upstream.leaves.size(), 22u);
}

TEST(TreeTest, DepthIsLimited) {
  PlainValues values({1, 64, 64}, 0, 1);
  values.map[0] = 3;
  for (int64_t depth = 0; depth < 4; ++depth) {
    const auto tree = grow({1, 64, 64}, values, {.fixed_length = 1000, .max_depth = depth});
    EXPECT_EQ(tree.leaves.size(), size_t{1} << (2 * depth));
  }
}

// The naive algorithm: a list, its first largest element, split in place.
TEST(TreeTest, HeapGivesWhatTheListGives) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const PlainValues values({1, 64, 64}, 0.02, seed);
    std::vector<std::pair<TreeBox, int64_t>> list = {{{0, 0, 0, 1, 64, 64}, 0}};
    while (list.size() < 100) {
      size_t best = list.size();
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].first.width <= 2) continue;
        if (best == list.size() || list[i].second > list[best].second) best = i;
      }
      const TreeBox box = list[best].first;
      const int32_t half = box.width / 2;
      list.erase(list.begin() + best);
      for (const auto& [dy, dx] :
           {std::pair<int32_t, int32_t>{0, half}, {0, 0}, {half, half}, {half, 0}}) {
        const TreeBox child = {0, box.y + dy, box.x + dx, 1, half, half};
        list.insert(list.begin() + best, {child, values.value(child)});
      }
    }
    std::vector<TreeBox> expected;
    for (const auto& entry : list) expected.push_back(entry.first);
    EXPECT_EQ(grow({1, 64, 64}, values, {.fixed_length = 100}).leaves, expected) << seed;
  }
}

// Node values are asked for once a node, so the work grows with the number of leaves.
TEST(TreeTest, AsksForEachNodeOnce) {
  for (const int64_t length : {10, 100, 1000}) {
    const PlainValues values({1, 128, 128}, 0.4, 2);
    const auto tree = grow({1, 128, 128}, values, {.fixed_length = length});
    EXPECT_EQ(values.num_calls, static_cast<int64_t>(tree.nodes.size()));
    EXPECT_EQ(tree.nodes.size(), (tree.leaves.size() - 1) / 3 * 4 + 1);
  }
}

TEST(TreeTest, RefusesEmptyAndHugeSizes) {
  const PlainValues values({1, 4, 4}, 0, 1);
  EXPECT_THROW(grow({1, 0, 4}, values, {}), Error);
  EXPECT_THROW(grow({1, 4, (1 << 20) + 1}, values, {}), Error);
}

TEST(CellSumsTest, SumsOfEveryBoxOfATree) {
  for (const VolumeSize& size :
       {VolumeSize{1, 190, 370}, {60, 110, 21}, {37, 64, 128}, {3, 1, 1}}) {
    for (const int64_t min_leaf : {1, 2, 5}) {
      const PlainValues values(size, 0.5, 9);
      patching::CellSums sums, thousands;
      sums.start(size, min_leaf);
      thousands.start(size, min_leaf);
      std::vector<uint32_t> spread(static_cast<size_t>(2 * size.width));
      const uint8_t* row = values.map.data();
      for (int64_t z = 0; z < size.depth; ++z) {
        for (int64_t y = 0; y < size.height; ++y, row += size.width) {
          sums.add_row(z, y, row, 1);
          for (int64_t x = 0; x < size.width; ++x) spread[2 * x] = 1000 * row[x];
          thousands.add_row(z, y, spread.data(), 2);
        }
      }
      sums.finish();
      thousands.finish();
      const auto tree = grow(size, values, {.fixed_length = 500, .min_leaf = min_leaf});
      for (const TreeNode& node : tree.nodes) {
        ASSERT_EQ(static_cast<int64_t>(sums.sum(node.box)), node.value);
        ASSERT_EQ(static_cast<int64_t>(thousands.sum(node.box)), 1000 * node.value);
      }
    }
  }
}

}  // namespace
}  // namespace fovea::data
