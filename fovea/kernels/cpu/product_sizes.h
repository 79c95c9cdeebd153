// What a product is of, [rows, depth] times [depth, columns], and where one of bfloat16 is to go.
#pragma once

#include <cstdint>

namespace fovea::kernels::cpu {

struct ProductSizes {
  int64_t rows, columns, depth;  // all above 0
};

// As bfloat16 [rows, columns], rows `stride` apart, with a bias [columns] of float32 or null added
// before rounding, and a residual [rows, columns] or null added then, which rounds once more.
struct Bfloat16Result {
  uint16_t* data;
  int64_t stride;
  const float* bias = nullptr;
  const uint16_t* residual = nullptr;
  int64_t residual_stride = 0;
  // Becomes GELU of what data becomes; lies as that does, and may be it. Null: not wanted.
  uint16_t* gelu = nullptr;

  // What is from `row` and `column` on.
  Bfloat16Result part(int64_t row, int64_t column) const {
    auto some = *this;
    some.data += row * stride + column;
    if (bias) some.bias += column;
    if (residual) some.residual += row * residual_stride + column;
    if (gelu) some.gelu += row * stride + column;
    return some;
  }
};

// In how many parts of `most` at most.
inline int64_t parts_of(int64_t size, int64_t most) { return (size + most - 1) / most; }

}  // namespace fovea::kernels::cpu
