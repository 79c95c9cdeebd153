// Sums over the slots of a batch, added in one order whoever has which of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace fovea::parallel {

// Slots [first, last); as a node of the tree, what they add up to.
struct SlotRange {
  int64_t first = 0;
  int64_t last = 0;

  int64_t size() const { return last - first; }
  bool has(const SlotRange& other) const { return first <= other.first && other.last <= last; }
  bool operator==(const SlotRange&) const = default;
};

// Note [One tree over slots]
// The slots of a batch are the leaves of a binary tree: a node [a, b) of several slots is the sum
// of [a, m) and [m, b), with m = (a + b) / 2, and the root has all. A sum of two numbers is rounded
// once, and which is the left one changes no bit of it. So whoever adds up which nodes, the root
// has the same bits. An empty slot, one without samples, adds nothing: a node with an empty side is
// the other side, as it is.

// Of the nodes of the tree over `slots` slots that lie in `range`, those whose parents do not, in
// the order of the slots.
std::vector<SlotRange> whole_nodes(int64_t slots, const SlotRange& range);

// The other child of the parent of `node`, and that parent; nothing: it is the root.
struct SlotFamily {
  SlotRange parent, sibling;
};
std::optional<SlotFamily> family_of(int64_t slots, const SlotRange& node);

// The root. value(node): nothing where its children are to be asked; an undefined tensor where it
// is empty. Values are added in place, and are lost by it. before_last(left, right): sees the two
// that the root is the sum of, unless it is known as a whole or one of them is empty.
at::Tensor sum_of_slots(
    int64_t slots, const std::function<std::optional<at::Tensor>(const SlotRange&)>& value,
    const std::function<void(const at::Tensor&, const at::Tensor&)>& before_last = {});

// Of rows, one a slot: [V, C] -> [C]. is_empty: [V].
at::Tensor sum_of_slot_rows(const at::Tensor& rows, const std::vector<bool>& is_empty);

}  // namespace fovea::parallel
