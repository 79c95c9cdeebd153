// Parts of tensors as the boxes that a manifest describes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/kernels/tensor_part.h"

namespace fovea::checkpoint {

struct Box {
  std::vector<int64_t> offset;  // of its first element in the whole tensor, by dim
  std::vector<int64_t> size;    // by dim

  int64_t numel() const;
  bool operator==(const Box&) const = default;
};

// All of a tensor of `shape`.
Box whole_box(const std::vector<int64_t>& shape);
// Nothing where they have no element in common.
std::optional<Box> common_box(const Box& a, const Box& b);
// What of a box is not in `hole`, which lies within it: at most two boxes a dim.
std::vector<Box> around_hole(const Box& box, const Box& hole);
// The box in pieces of at most so many elements, each a range of rows where that suffices.
std::vector<Box> pieces_of(const Box& box, int64_t most);
// values: [box.size], of a box -> a view of what lies in `inner`, a box within it.
at::Tensor part_of_box(at::Tensor values, const Box& box, const Box& inner);

// Elements [first, first + count) of a tensor of `shape`, row by row, as boxes in that order: at
// most two a dim, less one. None where count is 0.
std::vector<Box> boxes_of_range(const std::vector<int64_t>& shape, int64_t first, int64_t count);

// A part of `count` elements as boxes of the whole: those of its range of the cut, divided where a
// box along the cut dim goes over from one block to the next. Their elements, one box after the
// other, are those of the part in order. Throws Error where they could not be.
std::vector<Box> boxes_of_part(const kernels::TensorPart& part, int64_t count);

// A tensor that a process has, or one box of it.
struct HeldSlice {
  std::string name;
  std::vector<int64_t> shape;  // of the whole tensor
  Box box;
  at::Tensor values;  // [box.size], a view
};
// Of tensors by name, of which those in `parts` are parts of whole ones. None of what is empty.
std::vector<HeldSlice> held_slices(const std::map<std::string, at::Tensor>& tensors,
                                   const std::map<std::string, kernels::TensorPart>& parts);

// The name of a slice in its file: that of the tensor where it is the whole, else with its offset.
std::string slice_key(const std::string& name, const std::vector<int64_t>& shape, const Box& box);

}  // namespace fovea::checkpoint
