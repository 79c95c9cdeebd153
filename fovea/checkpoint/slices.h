// Parts of tensors as the boxes that a manifest describes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/kernels/tensor_part.h"

namespace fovea::checkpoint {

struct Box {
  std::vector<int64_t> offset;  // of its first element in the whole tensor, by dim
  std::vector<int64_t> size;    // by dim
};

// Elements [first, first + count) of a tensor of `shape`, row by row, as boxes in that order: at
// most two a dim, less one. None where count is 0.
std::vector<Box> boxes_of_range(const std::vector<int64_t>& shape, int64_t first, int64_t count);

// A part of `count` elements as boxes of the whole: those of its range of the cut, divided where a
// box along the cut dim goes over from one block to the next. Their elements, one box after the
// other, are those of the part in order. Throws Error where they could not be.
std::vector<Box> boxes_of_part(const kernels::TensorPart& part, int64_t count);

// The name of a slice in its file: that of the tensor where it is the whole, else with its offset.
std::string slice_key(const std::string& name, const std::vector<int64_t>& shape, const Box& box);

}  // namespace fovea::checkpoint
