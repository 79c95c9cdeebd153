// Parts of tensors seen by rows: what norms and averages over rows of a shared-out parameter need.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "fovea/optim/optimizer.h"

namespace fovea::optim {

// The rows that a part touches.
struct PartRows {
  int64_t begin = 0;   // the first of them, among those of the whole
  int64_t inside = 0;  // elements of it before the part
  at::Tensor values;   // [rows, row_size]; zeros outside of the part
};

// part: the elements [first, first + part.numel()) of a tensor, in row-major order; row_size: > 0
// elements of one row. A view where the part is whole rows.
PartRows whole_rows(const at::Tensor& part, int64_t first, int64_t row_size);

// The part of `rows.values`, or of another tensor of that shape: [size].
at::Tensor part_of_rows(const PartRows& rows, const at::Tensor& values, int64_t size);

// Norms of whole tensors from the norms of their parts, in place: one collective; none without
// `sum`.
void join_norms(std::span<double> norms, const SumOverParts& sum);

}  // namespace fovea::optim
