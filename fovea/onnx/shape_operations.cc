// Operations that move values without changing them.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "fovea/onnx/translator.h"

namespace fovea::onnx {
namespace {

bool is_same(const Sizes& a, const Sizes& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Size& x, const Size& y) {
    return x.fixed == y.fixed && x.batches == y.batches;
  });
}

// view, reshape, flatten, unflatten, squeeze, unsqueeze: all that counts is what comes out.
void reshape(Translator& to) {
  const auto& shape = to.output_shape();
  if (is_same(shape, to.shape("self"))) return to.set(to.tensor("self"));
  const auto num_free =
      std::count_if(shape.begin(), shape.end(), [](const Size& size) { return !size.is_fixed(); });
  std::string sizes;
  if (num_free <= 1) {
    std::vector<int64_t> fixed;
    for (const auto& size : shape) fixed.push_back(size.is_fixed() ? size.fixed : -1);
    sizes = to.graph().integers(fixed);
  } else {
    sizes = to.graph().sizes(shape);
  }
  to.set(to.graph().add("Reshape", {to.tensor("self"), sizes}));
}

void same(Translator& to) { to.set(to.tensor("self")); }

// Of all floating types the graph has one, and of integers one.
at::ScalarType kind_of(at::ScalarType type) {
  if (at::isFloatingType(type)) return at::kFloat;
  return type == at::kBool ? at::kBool : at::kLong;
}

void cast(Translator& to) {
  const auto from = kind_of(to.dtype("self")), wanted = kind_of(to.output_dtype());
  if (from == wanted) return same(to);
  to.set(to.graph().cast(to.tensor("self"), wanted));
}

void transpose_by(Translator& to, const std::vector<int64_t>& order) {
  to.set(to.graph().add("Transpose", {to.tensor("self")}, {{"perm", order}}));
}

void permute(Translator& to) {
  auto order = to.integers("dims");
  for (auto& side : order) side += side < 0 ? static_cast<int64_t>(order.size()) : 0;
  transpose_by(to, order);
}

std::vector<int64_t> unchanged_order(const Sizes& shape) {
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void transpose(Translator& to) {
  auto order = unchanged_order(to.shape("self"));
  std::swap(order[to.side("dim0", "self")], order[to.side("dim1", "self")]);
  transpose_by(to, order);
}

void transpose_matrix(Translator& to) {
  auto order = unchanged_order(to.shape("self"));
  std::reverse(order.begin(), order.end());
  transpose_by(to, order);
}

void select(Translator& to) {
  to.set(to.graph().add("Gather", {to.tensor("self"), to.graph().index(to.integer("index"))},
                        {{"axis", to.side("dim", "self")}}));
}

void unbind(Translator& to) {
  const auto axis = to.side("dim", "self");
  for (size_t i = 0; i < to.num_outputs(); ++i) {
    to.set(to.graph().add("Gather", {to.tensor("self"), to.graph().index(static_cast<int64_t>(i))},
                          {{"axis", axis}}),
           i);
  }
}

void chunk(Translator& to) {
  const auto axis = to.side("dim", "self");
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < to.num_outputs(); ++i) {
    const auto& length = to.output_shape(i)[static_cast<size_t>(axis)];
    if (!length.is_fixed()) to.refuse("the batch taken apart");
    lengths.push_back(length.fixed);
  }
  const auto parts = to.graph().add("Split", {to.tensor("self"), to.graph().integers(lengths)},
                                    lengths.size(), {{"axis", axis}});
  for (size_t i = 0; i < parts.size(); ++i) to.set(parts[i], i);
}

void slice_by(Translator& to, int64_t first, int64_t last, int64_t step) {
  auto& graph = to.graph();
  to.set(graph.add("Slice", {to.tensor("self"), graph.integers({first}), graph.integers({last}),
                             graph.integers({to.side("dim", "self")}), graph.integers({step})}));
}

void narrow(Translator& to) {
  if (is_same(to.output_shape(), to.shape("self"))) return same(to);
  const auto first = to.integer("start");
  slice_by(to, first, first + to.integer("length"), 1);
}

void slice(Translator& to) {
  const auto first = to.is_none("start") ? 0 : to.integer("start");
  const auto last = to.is_none("end") ? std::numeric_limits<int64_t>::max() : to.integer("end");
  slice_by(to, first, last, to.integer("step"));
}

void concatenate(Translator& to) {
  const auto parts = to.tensors("tensors");
  if (parts.size() == 1) return to.set(parts.front());
  const auto sides = static_cast<int64_t>(to.output_shape().size());
  const auto axis = to.integer("dim");
  to.set(to.graph().add("Concat", parts, {{"axis", axis < 0 ? axis + sides : axis}}));
}

void expand(Translator& to) {
  if (is_same(to.output_shape(), to.shape("self"))) return same(to);
  to.set(to.graph().add("Expand", {to.tensor("self"), to.graph().sizes(to.output_shape())}));
}

// Windows of `size`, `step` apart: [.., S, ..] -> [.., windows, .., size].
void unfold(Translator& to) {
  const auto side = to.side("dimension", "self");
  const auto size = to.integer("size"), step = to.integer("step");
  const auto& shape = to.output_shape();
  std::vector<int64_t> rows;
  for (int64_t window = 0; window < shape[static_cast<size_t>(side)].fixed; ++window) {
    for (int64_t i = 0; i < size; ++i) rows.push_back(window * step + i);
  }
  auto& graph = to.graph();
  const auto table = graph.add(
      "Reshape", {graph.integers(rows), graph.integers({static_cast<int64_t>(rows.size()) / size,
                                                        size})});  // [windows, size]
  const auto windows =
      graph.add("Gather", {to.tensor("self"), table}, {{"axis", side}});  // [.., windows, size, ..]
  auto order = unchanged_order(shape);
  order.erase(order.begin() + side + 1);
  order.push_back(side + 1);
  to.set(graph.add("Transpose", {windows}, {{"perm", order}}));
}

// libtorch counts pairs from the last side, ONNX all beginnings and then all ends.
void pad(Translator& to) {
  const auto pairs = to.integers("pad");
  const auto sides = to.shape("self").size();
  std::vector<int64_t> pads(2 * sides, 0);
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    pads[sides - 1 - i] = pairs[2 * i];
    pads[2 * sides - 1 - i] = pairs[2 * i + 1];
  }
  to.set(to.graph().add("Pad", {to.tensor("self"), to.graph().integers(pads),
                                to.graph().number(to.number_or("value", 0))}));
}

void fill(Translator& to, double value) {
  const auto filled =
      to.graph().add("Expand", {to.graph().number(value), to.graph().sizes(to.output_shape())});
  const auto wanted = kind_of(to.output_dtype());
  to.set(wanted == at::kFloat ? filled : to.graph().cast(filled, wanted));
}

// Rows of a table.
void index_select(Translator& to) {
  to.set(to.graph().add("Gather", {to.tensor("self"), to.tensor("index")},
                        {{"axis", to.side("dim", "self")}}));
}

void gather(Translator& to) {
  to.set(to.graph().add("GatherElements", {to.tensor("self"), to.tensor("index")},
                        {{"axis", to.side("dim", "self")}}));
}

void scatter(Translator& to) {
  if (to.is_none("src")) to.refuse("a scatter of one number");
  to.set(to.graph().add("ScatterElements",
                        {to.tensor("self"), to.tensor("index"), to.tensor("src")},
                        {{"axis", to.side("dim", "self")}}));
}

void where(Translator& to) {
  to.set(to.graph().add("Where",
                        {to.tensor("condition"), to.tensor("self"), to.tensor_or_number("other")}));
}

void masked_fill(Translator& to) {
  to.set(to.graph().add("Where",
                        {to.tensor("mask"), to.tensor_or_number("value"), to.tensor("self")}));
}

}  // namespace

Operations shape_operations() {
  Operations all = {{"aten::to", cast},
                    {"aten::permute", permute},
                    {"aten::transpose", transpose},
                    {"aten::t", transpose_matrix},
                    {"aten::select", select},
                    {"aten::unbind", unbind},
                    {"aten::chunk", chunk},
                    {"aten::split_with_sizes", chunk},
                    {"aten::narrow", narrow},
                    {"aten::slice", slice},
                    {"aten::cat", concatenate},
                    {"aten::expand", expand},
                    {"aten::unfold", unfold},
                    {"aten::constant_pad_nd", pad},
                    {"aten::index_select", index_select},
                    {"aten::gather", gather},
                    {"aten::scatter", scatter},
                    {"aten::where", where},
                    {"aten::masked_fill", masked_fill},
                    {"aten::masked_fill_", masked_fill},
                    {"aten::ones_like", [](Translator& to) { fill(to, 1); }},
                    {"aten::zeros_like", [](Translator& to) { fill(to, 0); }},
                    {"aten::ones", [](Translator& to) { fill(to, 1); }},
                    {"aten::zeros", [](Translator& to) { fill(to, 0); }}};
  for (const auto* name : {"reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze"}) {
    all.emplace(fmt::format("aten::{}", name), reshape);
  }
  for (const auto* name : {"contiguous", "clone", "detach", "alias"}) {
    all.emplace(fmt::format("aten::{}", name), same);
  }
  return all;
}

}  // namespace fovea::onnx
