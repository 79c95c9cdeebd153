// Sums over slots have the same bits whoever has which of them.
#include "fovea/parallel/slot_reducer.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "fovea/parallel/half_sums.h"
#include "tests/parallel/inner_world.h"
#include "tests/parallel/run_ranks.h"
#include "tests/support/close.h"

namespace fovea::parallel {
namespace {

using support::expect_same_bits;
using support::random;
using testing::run_ranks;
using testing::with_ranks;

std::vector<SlotRange> ranges_of(const std::vector<int64_t>& ends) {
  std::vector<SlotRange> ranges;
  for (int64_t first = 0; const int64_t end : ends) {
    ranges.push_back({first, end});
    first = end;
  }
  return ranges;
}

// Ends of the ranges of every partition of `slots` into ranks of one slot or more.
std::vector<std::vector<int64_t>> partitions(int64_t slots) {
  std::vector<std::vector<int64_t>> found;
  for (int64_t cuts = 0; cuts < int64_t{1} << (slots - 1); ++cuts) {
    auto& ends = found.emplace_back();
    for (int64_t slot = 1; slot < slots; ++slot) {
      if ((cuts >> (slot - 1)) & 1) ends.push_back(slot);
    }
    ends.push_back(slots);
  }
  return found;
}

// The definition once more: a node of several slots is the sum of its halves.
at::Tensor by_hand(const at::Tensor& rows, const std::vector<bool>& is_empty, int64_t first,
                   int64_t last) {
  if (last - first == 1) return is_empty[static_cast<size_t>(first)] ? at::Tensor() : rows[first];
  const int64_t middle = (first + last) / 2;
  const auto left = by_hand(rows, is_empty, first, middle);
  const auto right = by_hand(rows, is_empty, middle, last);
  if (!left.defined() || !right.defined()) return left.defined() ? left : right;
  return left + right;
}

TEST(SlotTreeTest, NodesOfARangeCoverItOnce) {
  for (int64_t slots = 1; slots <= 9; ++slots) {
    for (int64_t first = 0; first < slots; ++first) {
      for (int64_t last = first + 1; last <= slots; ++last) {
        int64_t next = first;
        for (const auto& node : whole_nodes(slots, {first, last})) {
          EXPECT_EQ(node.first, next);
          next = node.last;
          const auto family = family_of(slots, node);
          const SlotRange range{first, last};
          EXPECT_FALSE(family && range.has(family->parent));
        }
        EXPECT_EQ(next, last);
      }
    }
  }
  EXPECT_EQ(whole_nodes(8, {2, 5}), (std::vector<SlotRange>{{2, 4}, {4, 5}}));
  EXPECT_FALSE(family_of(8, {0, 8}).has_value());
  EXPECT_EQ(family_of(8, {4, 6})->sibling, (SlotRange{6, 8}));
}

TEST(SlotTreeTest, AnyPartitionHasTheBitsOfTheTree) {
  int64_t differing = 0;  // from a sum in order: bits are at stake
  for (int64_t slots = 1; slots <= 9; ++slots) {
    const auto rows = random({slots, 50}, at::kFloat, static_cast<uint64_t>(slots));
    for (const int64_t empties : {0, 5, 0x1ff & ~4}) {
      std::vector<bool> is_empty;
      for (int64_t slot = 0; slot < slots; ++slot) is_empty.push_back((empties >> slot) & 1);
      const auto expected = by_hand(rows, is_empty, 0, slots);
      if (!expected.defined()) continue;
      if (empties == 0) differing += !expected.equal(rows.sum(0));
      expect_same_bits(sum_of_slot_rows(rows, is_empty), expected, "rows");
      for (const auto& ends : partitions(slots)) {
        // What each rank comes to, and the rest of the way up.
        std::vector<std::pair<SlotRange, at::Tensor>> nodes;
        for (const auto& range : ranges_of(ends)) {
          for (const auto& node : whole_nodes(slots, range)) {
            const auto sum = by_hand(rows, is_empty, node.first, node.last);
            nodes.emplace_back(node, sum.defined() ? sum.clone() : sum);
          }
        }
        const auto sum =
            sum_of_slots(slots, [&](const SlotRange& node) -> std::optional<at::Tensor> {
              for (const auto& [range, value] : nodes) {
                if (range == node) return value;
              }
              return std::nullopt;
            });
        expect_same_bits(sum, expected, "partition");
      }
    }
  }
  EXPECT_GT(differing, 0);
}

// size: of the flat gradient.
struct FlatGradient {
  explicit FlatGradient(int64_t size)
      : leaf(at::zeros({size}).set_requires_grad(true)), flat(at::zeros({size})) {
    leaf.mutable_grad() = flat;
  }
  at::Tensor leaf, flat;
};

// rows: [V, N], the gradients of the slots; each comes in two passes.
at::Tensor reduced(FlatGradient& own, SlotReducer& reducer, const SlotPlan& plan, int64_t rank,
                   const at::Tensor& rows) {
  own.flat.zero_();
  reducer.begin_slots(plan);
  const auto& range = plan.of_ranks[static_cast<size_t>(rank)];
  for (int64_t slot = range.first; slot < range.last; ++slot) {
    for (int pass = 0; pass < 2 && !plan.is_empty[static_cast<size_t>(slot)]; ++pass) {
      reducer.before_backward(pass == 1 && slot + 1 == range.last);
      (own.leaf * rows[slot] * (pass == 0 ? 0.3 : 0.7)).sum().backward();
      reducer.after_backward();
    }
    reducer.end_slot(slot);
  }
  reducer.finish();
  return own.flat;
}

SlotPlan plan_of(int64_t slots, int64_t ranks, int64_t empties) {
  SlotPlan plan;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    plan.of_ranks.push_back({slots * rank / ranks, slots * (rank + 1) / ranks});
  }
  for (int64_t slot = 0; slot < slots; ++slot) plan.is_empty.push_back((empties >> slot) & 1);
  return plan;
}

// Sizes that the ranks divide, and others; empty slots, also all of a rank; twice in a row, so that
// buffers are used again.
TEST(SlotReducerTest, AnyNumberOfRanksHasTheBitsOfOne) {
  run_ranks(5, [](World& outer) {
    for (const int64_t ranks : {2, 3, 5}) {
      std::vector<int64_t> members;
      for (int64_t rank = 0; rank < ranks; ++rank) members.push_back(rank);
      with_ranks(outer, members, std::to_string(ranks), [&](World& world) {
        for (const int64_t size : {30, 31}) {
          FlatGradient alone(size), shared(size);
          SlotReducer of_one(alone.flat, one_rank()), of_all(shared.flat, world.all());
          for (const int64_t slots : {5, 8, 9}) {
            for (const int64_t empties : {0, 0b10110, 0b11, 0x1fe, 0x1ff}) {
              SCOPED_TRACE(::testing::Message() << size << " " << slots << " " << empties);
              const auto rows = random({slots, size}, at::kFloat, 3);
              const auto found =
                  reduced(shared, of_all, plan_of(slots, ranks, empties), world.rank(), rows);
              const auto wanted = reduced(alone, of_one, plan_of(slots, 1, empties), 0, rows);
              expect_same_bits(found, wanted, "gradients");
            }
          }
        }
      });
    }
  });
}

// By hand, in one sum.
at::Tensor halves_by_hand(const at::Tensor& rows, const std::vector<bool>& is_empty) {
  const int64_t slots = rows.size(0);
  const auto a = by_hand(rows, is_empty, 0, slots / 2),
             b = by_hand(rows, is_empty, slots / 2, slots);
  if (!a.defined() || !b.defined()) return at::zeros({3}, at::kDouble);
  const auto x = a.to(at::kDouble), y = b.to(at::kDouble);
  return at::stack({(x * x).sum(), (y * y).sum(), (x * y).sum()});
}

// Of tiles that are whole, and cut off, more of them than ranks and fewer.
TEST(SlotReducerTest, HalvesHaveTheBitsOfOneRank) {
  run_ranks(3, [](World& outer) {
    for (const int64_t ranks : {2, 3}) {
      std::vector<int64_t> members;
      for (int64_t rank = 0; rank < ranks; ++rank) members.push_back(rank);
      with_ranks(outer, members, "halves" + std::to_string(ranks), [&](World& world) {
        for (const int64_t size : {int64_t{31}, 2 * kHalfTile, 3 * kHalfTile + 13}) {
          FlatGradient alone(size), shared(size);
          SlotReducer of_one(alone.flat, one_rank()), of_all(shared.flat, world.all());
          EXPECT_FALSE(of_all.measures_halves());
          of_one.measure_halves();
          of_all.measure_halves();
          for (const int64_t slots : {4, 5}) {
            for (const int64_t empties : {0, 0b10010, 0b11}) {
              SCOPED_TRACE(::testing::Message() << size << " " << slots << " " << empties);
              const auto rows = random({slots, size}, at::kFloat, 3);
              const auto plan = plan_of(slots, 1, empties);
              const auto wanted = reduced(alone, of_one, plan, 0, rows);
              const auto found =
                  reduced(shared, of_all, plan_of(slots, ranks, empties), world.rank(), rows);
              expect_same_bits(found, wanted, "gradients");
              // Each tile is one rank's, and zero on others.
              world.all().all_reduce(of_all.halves(), "tiles");
              expect_same_bits(of_all.halves(), of_one.halves(), "tiles");
              support::expect_close(add_tiles(of_one.halves()), halves_by_hand(rows, plan.is_empty),
                                    at::kFloat, "halves");
            }
          }
        }
      });
    }
  });
}

TEST(SlotReducerTest, AStepThatBrokeOffLeavesNothing) {
  FlatGradient own(20);
  SlotReducer reducer(own.flat, one_rank());
  const auto rows = random({4, 20}, at::kFloat, 5);
  const auto plan = plan_of(4, 1, 0);
  const auto expected = reduced(own, reducer, plan, 0, rows).clone();
  reducer.begin_slots(plan);
  own.flat.fill_(7);
  reducer.end_slot(0);
  reducer.end_slot(1);
  expect_same_bits(reduced(own, reducer, plan, 0, rows), expected, "gradients");
}

}  // namespace
}  // namespace fovea::parallel
