// V slots, C numbers of each.
#include "fovea/parallel/slot_tree.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace fovea::parallel {
namespace {

using SlotValue = std::function<std::optional<at::Tensor>(const SlotRange&)>;

int64_t middle_of(const SlotRange& node) { return (node.first + node.last) / 2; }

void add_whole_nodes(const SlotRange& node, const SlotRange& range, std::vector<SlotRange>& found) {
  if (range.has(node)) {
    found.push_back(node);
    return;
  }
  if (node.last <= range.first || range.last <= node.first) return;
  add_whole_nodes({node.first, middle_of(node)}, range, found);
  add_whole_nodes({middle_of(node), node.last}, range, found);
}

at::Tensor sum_of_children(at::Tensor left, const at::Tensor& right) {
  if (!left.defined()) return right;
  return right.defined() ? left.add_(right) : left;
}

at::Tensor sum_of_node(const SlotRange& node, const SlotValue& value) {
  if (const auto known = value(node)) return *known;
  auto left = sum_of_node({node.first, middle_of(node)}, value);
  const auto right = sum_of_node({middle_of(node), node.last}, value);
  return sum_of_children(left, right);
}

}  // namespace

std::vector<SlotRange> whole_nodes(int64_t slots, const SlotRange& range) {
  std::vector<SlotRange> found;
  if (range.size() > 0) add_whole_nodes({0, slots}, range, found);
  return found;
}

std::optional<SlotFamily> family_of(int64_t slots, const SlotRange& node) {
  SlotRange parent{0, slots};
  if (node == parent) return std::nullopt;
  for (;;) {
    const SlotRange left{parent.first, middle_of(parent)}, right{left.last, parent.last};
    if (node == left) return SlotFamily{parent, right};
    if (node == right) return SlotFamily{parent, left};
    parent = left.has(node) ? left : right;
  }
}

at::Tensor sum_of_slots(
    int64_t slots, const SlotValue& value,
    const std::function<void(const at::Tensor&, const at::Tensor&)>& before_last) {
  const at::NoGradGuard no_grad;
  const SlotRange root{0, slots};
  if (!before_last) return sum_of_node(root, value);
  if (const auto known = value(root)) return *known;
  const auto left = sum_of_node({0, middle_of(root)}, value);
  const auto right = sum_of_node({middle_of(root), slots}, value);
  if (left.defined() && right.defined()) before_last(left, right);
  return sum_of_children(left, right);
}

at::Tensor sum_of_slot_rows(const at::Tensor& rows, const std::vector<bool>& is_empty) {
  const auto sum =
      sum_of_slots(rows.size(0), [&](const SlotRange& node) -> std::optional<at::Tensor> {
        if (node.size() > 1) return std::nullopt;
        return is_empty[static_cast<size_t>(node.first)] ? at::Tensor() : rows[node.first].clone();
      });
  return sum.defined() ? sum : rows[0].clone();  // of empty slots alone, which are zeros
}

}  // namespace fovea::parallel
