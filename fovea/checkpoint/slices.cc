#include "fovea/checkpoint/slices.h"

#include <fmt/ranges.h>

#include <algorithm>

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
