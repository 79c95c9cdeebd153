// Products of rows of float32 or bfloat16 and a weight of 8-bit integers in libtorch's threads (see
// Note [Int8]).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fovea/kernels/cpu/aligned_buffer.h"
#include "fovea/kernels/cpu/int8_blocks.h"
#include "fovea/kernels/cpu/int8_vectors.h"

namespace fovea::kernels::cpu {

// A weight [columns, depth] as the form takes it. Of a column of zeros the scale is 0, of one where
// something is not finite NaN.
struct Int8Weight {
  Int8Form form;
  int64_t columns, depth;
  int64_t groups;                 // of a column
  AlignedBuffer<uint8_t> strips;  // [strips, groups, width]
  std::vector<float> scales;      // [strips, width], and
  std::vector<int32_t> sums;      // of a column's codes; 0 behind the last column
  // Of Int8Form::kBytes: Int8StripOrder of each strip.
  std::vector<int32_t> places = {}, shifts = {};  // [strips, groups], [strips, width]
  std::vector<int64_t> num_fitting = {};          // [strips]
  std::optional<Int8Row> rows = {};  // what codes of all rows of x stand for; none: each row's own
};

// weight: [columns, depth], row after row; depth at most kMostInt8Depth.
Int8Weight pack_int8_weight(Int8Form form, const float* weight, int64_t columns, int64_t depth);

// The codes of a column of a weight, [depth], of -most_code to most_code; its scale, which is NaN
// where something is not finite, and the codes 0.
inline constexpr int kMostInt8Code = 127;
float int8_column(const float* values, int64_t depth, int8_t* codes, int most_code = kMostInt8Code);

// x: [rows, depth], rows `stride` values apart, of float32 or of bfloat16's bits; bias: [columns]
// or null. Threads and cuts change no bit, nor do the rows beside one.
void int8_product(const float* x, int64_t stride, int64_t rows, const Int8Weight& weight,
                  const float* bias, const Int8Results<float>& results);
void int8_product(const uint16_t* x, int64_t stride, int64_t rows, const Int8Weight& weight,
                  const float* bias, const Int8Results<uint16_t>& results);

}  // namespace fovea::kernels::cpu
