// Tensors put together from slices of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "fovea/checkpoint/manifest.h"
#include "fovea/checkpoint/slices.h"
#include "fovea/checkpoint/state.h"

namespace fovea::checkpoint {

inline Box box_of(const Slice& slice) { return {.offset = slice.offset, .size = slice.size}; }

// One tensor: the whole, or a part of it.
class Assembly {
 public:
  // wanted: null: the whole.
  Assembly(const TensorEntry& entry, const WantedPart* wanted);

  // What it needs of the whole tensor; its elements, one box after the other, are those of the
  // result.
  const std::vector<Box>& boxes() const { return boxes_; }
  bool touches(const Box& slice) const;

  // Copies what it needs of a slice's values; takes them as they are where they are all of it.
  // After make() several threads may place slices that do not overlap.
  void place(const Box& slice, const at::Tensor& values);
  // There is memory to place slices in.
  void make();
  // On the CPU; what no slice had has no values.
  at::Tensor take();

 private:
  at::Tensor tensor_;
  std::vector<Box> boxes_;
  std::vector<int64_t> sizes_;
  at::ScalarType dtype_;
  bool is_whole_;
};

}  // namespace fovea::checkpoint
