#include "fovea/checkpoint/slices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "fovea/core/error.h"

namespace fovea::checkpoint {
namespace {

// The range [begin, end) within the row that `offset` (its first `dim` numbers) names.
void add_boxes(const std::vector<int64_t>& shape, std::vector<int64_t> offset, size_t dim,
               int64_t begin, int64_t end, std::vector<Box>& boxes) {
  if (begin >= end) return;
  if (dim == shape.size()) {  // one element
    boxes.push_back({offset, std::vector<int64_t>(shape.size(), 1)});
    return;
  }
  int64_t row = 1;  // elements of one step along `dim`
  for (size_t d = dim + 1; d < shape.size(); ++d) row *= shape[d];
  const auto piece_of = [&](int64_t index, int64_t from, int64_t to) {
    auto inner = offset;
    inner[dim] = index;
    add_boxes(shape, inner, dim + 1, from, to, boxes);
  };
  const int64_t first = begin / row, last = end / row;  // rows cut at their start, at their end
  if (first == last) return piece_of(first, begin - first * row, end - first * row);
  int64_t whole = first;
  if (begin > first * row) {
    piece_of(first, begin - first * row, row);
    whole += 1;
  }
  if (last > whole) {
    Box box{offset, shape};
    box.offset[dim] = whole;
    std::fill_n(box.size.begin(), dim, 1);
    box.size[dim] = last - whole;
    boxes.push_back(std::move(box));
  }
  if (end > last * row) piece_of(last, 0, end - last * row);
}

// A box of a cut of this shape, where its values stand in the whole.
void add_pieces(const kernels::TensorCut& cut, const std::vector<int64_t>& shape, const Box& box,
                std::vector<Box>& pieces) {
  const auto dim = static_cast<size_t>(cut.dim);
  const int64_t own_lead = cut.lead / cut.count;
  const int64_t own = (shape[dim] - own_lead) / cut.blocks;  // of each block
  for (int64_t at = box.offset[dim], end = at + box.size[dim]; at < end;) {
    const bool is_lead = at < own_lead;
    const int64_t block = is_lead ? 0 : (at - own_lead) / own;
    const int64_t first = is_lead ? 0 : own_lead + block * own;  // of the range that it begins in
    const int64_t length = is_lead ? own_lead : own;
    auto piece = box;
    piece.size[dim] = std::min(end, first + length) - at;
    piece.offset[dim] =
        (is_lead ? 0 : cut.lead) + (block * cut.count + cut.index) * length + at - first;
    at += piece.size[dim];
    pieces.push_back(std::move(piece));
  }
}

}  // namespace

int64_t Box::numel() const {
  int64_t count = 1;
  for (const int64_t side : size) count *= side;
  return count;
}

Box whole_box(const std::vector<int64_t>& shape) {
  return {.offset = std::vector<int64_t>(shape.size(), 0), .size = shape};
}

std::optional<Box> common_box(const Box& a, const Box& b) {
  Box both = a;
  for (size_t d = 0; d < a.size.size(); ++d) {
    both.offset[d] = std::max(a.offset[d], b.offset[d]);
    both.size[d] = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]) - both.offset[d];
    if (both.size[d] <= 0) return std::nullopt;
  }
  return both;
}

// Dim by dim what lies before the hole and behind it, of what is left between them.
std::vector<Box> around_hole(const Box& box, const Box& hole) {
  std::vector<Box> boxes;
  auto rest = box;
  for (size_t d = 0; d < box.size.size(); ++d) {
    const int64_t first = hole.offset[d], last = first + hole.size[d];
    const int64_t begin = rest.offset[d], end = begin + rest.size[d];
    const auto add = [&](int64_t from, int64_t to) {
      if (from >= to) return;
      boxes.push_back(rest);
      boxes.back().offset[d] = from;
      boxes.back().size[d] = to - from;
    };
    add(begin, first);
    add(last, end);
    rest.offset[d] = first;
    rest.size[d] = last - first;
  }
  return boxes;
}

std::vector<Box> pieces_of(const Box& box, int64_t most) {
  size_t dim = 0;
  while (dim < box.size.size() && box.size[dim] == 1) ++dim;
  if (box.numel() <= most || dim == box.size.size()) return {box};
  const int64_t row = box.numel() / box.size[dim];
  const int64_t rows = std::max<int64_t>(1, most / row);
  std::vector<Box> pieces;
  for (int64_t at = 0; at < box.size[dim]; at += rows) {
    auto piece = box;
    piece.offset[dim] += at;
    piece.size[dim] = std::min(rows, box.size[dim] - at);
    for (auto& smaller : pieces_of(piece, most)) pieces.push_back(std::move(smaller));
  }
  return pieces;
}

at::Tensor part_of_box(at::Tensor values, const Box& box, const Box& inner) {
  for (size_t d = 0; d < box.size.size(); ++d) {
    values = values.narrow(static_cast<int64_t>(d), inner.offset[d] - box.offset[d], inner.size[d]);
  }
  return values;
}

std::vector<HeldSlice> held_slices(const std::map<std::string, at::Tensor>& tensors,
                                   const std::map<std::string, kernels::TensorPart>& parts) {
  std::vector<HeldSlice> slices;
  for (const auto& [name, tensor] : tensors) {
    const auto part = parts.find(name);
    const auto shape = part == parts.end() ? tensor.sizes().vec() : part->second.shape;
    const auto boxes = part == parts.end() ? std::vector{whole_box(shape)}
                                           : boxes_of_part(part->second, tensor.numel());
    const auto flat = tensor.reshape({-1});
    int64_t begin = 0;
    for (const auto& box : boxes) {
      slices.push_back({name, shape, box, flat.narrow(0, begin, box.numel()).view(box.size)});
      begin += box.numel();
    }
  }
  return slices;
}

std::vector<Box> boxes_of_range(const std::vector<int64_t>& shape, int64_t first, int64_t count) {
  int64_t total = 1;
  for (const int64_t side : shape) total *= side;
  FOVEA_CHECK(first >= 0 && count >= 0 && first + count <= total,
              "elements [{}, {}) of a tensor of {}", first, first + count, total);
  std::vector<Box> boxes;
  add_boxes(shape, std::vector<int64_t>(shape.size(), 0), 0, first, first + count, boxes);
  return boxes;
}

std::vector<Box> boxes_of_part(const kernels::TensorPart& part, int64_t count) {
  const auto shape = kernels::cut_shape(part);
  auto boxes = boxes_of_range(shape, part.first, count);
  if (!part.cut) return boxes;
  const auto& cut = *part.cut;
  FOVEA_CHECK(cut.blocks == 1 || cut.dim == 0, "a cut of {} blocks along dim {}; expected dim 0",
              cut.blocks, cut.dim);
  std::vector<Box> result;
  for (const auto& box : boxes) {
    if (cut.dim == 0 || cut.lead == 0) {
      add_pieces(cut, shape, box, result);
      continue;
    }
    // Row by row, for values stand in the order of the boxes.
    auto row = box;
    row.size[0] = 1;
    for (int64_t i = 0; i < box.size[0]; ++i) {
      row.offset[0] = box.offset[0] + i;
      add_pieces(cut, shape, row, result);
    }
  }
  return result;
}

std::string slice_key(const std::string& name, const std::vector<int64_t>& shape, const Box& box) {
  return box.size == shape ? name : fmt::format("{}@{}", name, fmt::join(box.offset, ","));
}

}  // namespace fovea::checkpoint
