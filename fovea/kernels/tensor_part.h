// Parts of tensors that several processes share out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fovea::kernels {

// What one of `count` processes has of a tensor that they share out along `dim`: of each of
// `blocks` equal ranges of it (of qkv's q, k and v) its own of `count` equal parts. The first
// `lead` entries are a range by themselves, of another length.
struct TensorCut {
  int64_t dim = 0;
  int64_t blocks = 1;
  int64_t index = 0, count = 1;
  int64_t lead = 0;
};

// Elements [first, first + n) of a tensor, or of a cut of it, row by row.
struct TensorPart {
  std::vector<int64_t> shape;  // of the whole tensor
  int64_t first = 0;
  std::optional<TensorCut> cut = {};  // none: of the whole
};

// All of a cut of these sizes, as a part of its tensor.
TensorPart all_of_cut(at::IntArrayRef sizes, const TensorCut& cut);
// Of the cut, or the whole where there is none.
std::vector<int64_t> cut_shape(const TensorPart& part);
// Where the entries of the cut along `dim` stand in the whole, rising: [entries] int64, on the CPU.
at::Tensor indices_in_whole(const TensorPart& part, int64_t dim);

// A tensor of its own; dim is to be lead, a multiple of count, and a multiple of blocks * count.
at::Tensor take_cut(const TensorCut& cut, const at::Tensor& whole);
// whole: [shape] -> the part, in a tensor of `sizes`, which says how many elements.
at::Tensor take_part(const TensorPart& part, const at::Tensor& whole, at::IntArrayRef sizes);
// A part's values in their places, zeros elsewhere: [shape]. The sum over all parts is the whole.
at::Tensor spread_part(const TensorPart& part, const at::Tensor& values);

}  // namespace fovea::kernels
