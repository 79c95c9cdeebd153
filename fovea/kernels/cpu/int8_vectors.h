// What vectors of any width do for products of 8-bit integers (see Note [Int8]): codes of rows, the
// products of Int8Form::kPairs, and results out of sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "fovea/kernels/cpu/int8_blocks.h"

namespace fovea::kernels::cpu {

// Of a row where something is not finite.
inline constexpr Int8Row kNoInt8Row = {std::numeric_limits<float>::quiet_NaN(), 0};

// Values of T are float32, or bfloat16 by its bits (uint16_t).

// Of a first factor, [count, depth], rows `stride` values apart.
template <class T>
struct Int8Values {
  const T* data;
  int64_t stride;
  int64_t count, depth;
};
// Their codes of one or two bytes, rows `stride` bytes apart, with room for a multiple of 64 in
// each of them; and what they stand for, [count].
struct Int8Codes {
  uint8_t* data;
  int64_t stride;
  int64_t code_bytes;
  Int8Row* rows;
};
// given: what the codes of all rows are to stand for; null: what each row's own range says.
void quantize_rows(const Int8Values<float>& x, const Int8Row* given, const Int8Codes& codes);
void quantize_rows(const Int8Values<uint16_t>& x, const Int8Row* given, const Int8Codes& codes);

// Of Int8Form::kPairs: columns of a strip, rows of a block, and the block (int8_blocks.h).
int64_t pairs_width();
int64_t pairs_rows();
void multiply_block_of_pairs(const Int8Factors& factors, bool adds, int32_t* sums);

// Sums of products of codes, [count, width], and the rows that they are of.
struct Int8Sums {
  const int32_t* data;
  int64_t width;
  const Int8Row* rows;
  int64_t count;
};
// Columns of a second factor; scales and sums are there for whole vectors of them.
struct Int8Columns {
  int64_t count;
  const float* scales;
  const int32_t* sums;  // of their codes
  const float* bias;    // null: 0

  // Those from `column` on, `most` at most.
  Int8Columns part(int64_t column, int64_t most) const {
    return {std::min(most, count - column), scales + column, sums + column,
            bias ? bias + column : nullptr};
  }
};
// Where their results go, [rows, count]; once they are whole, residual is added, or gelu becomes
// x Phi(x) of them, which may be `data`; each may be null. All in float32, and rounded once.
template <class T>
struct Int8Results {
  T* data;
  int64_t stride;  // of gelu, too
  const T* residual;
  int64_t residual_stride;
  T* gelu;

  // Those from a row and a column on.
  Int8Results part(int64_t row, int64_t column) const {
    const auto place = row * stride + column;
    return {data + place, stride, residual ? residual + row * residual_stride + column : nullptr,
            residual_stride, gelu ? gelu + place : nullptr};
  }
};
void finish_rows(const Int8Sums& sums, const Int8Columns& columns,
                 const Int8Results<float>& results);
void finish_rows(const Int8Sums& sums, const Int8Columns& columns,
                 const Int8Results<uint16_t>& results);

}  // namespace fovea::kernels::cpu
