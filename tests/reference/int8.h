// Products of 8-bit integers as plain loops, one number at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

namespace fovea::reference {

// What Note [Int8] of kernels/cpu/int8_blocks.h says, on the CPU. x: [M, K], weight: [N, K], bias:
// [N], all float32. range: the least and the largest value that rows are held to; none: each row's
// own.
struct Int8Product {
  at::Tensor result;      // [M, N] float32, each step rounded as float32 does
  at::Tensor in_float64;  // [M, N], where nothing is rounded but codes and scales
  at::Tensor most_error;  // [M, N] float64: what rounding to codes may have changed at most, of
                          // values in the range
};
using RowRange = std::optional<std::pair<float, float>>;
Int8Product int8_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         const RowRange& range = {});

}  // namespace fovea::reference
