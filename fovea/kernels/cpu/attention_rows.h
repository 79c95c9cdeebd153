// The rows of one head where they lie in a tensor, of float32 or bfloat16.
#pragma once

#include <algorithm>
#include <cstdint>

#include "fovea/kernels/cpu/coming_bytes.h"
#include "fovea/kernels/cpu/norm_rows.h"

namespace fovea::kernels::cpu {

// A matrix [N, K] inside a larger one: its rows are `stride` values apart.
template <class Data>
struct RowsOfHead {
  Data* data;
  int64_t stride;
  bool is_bfloat16 = false;  // patterns of 16 bits, else floats
  // How many values further on lie those that the thread works on next, which it asks memory for
  // meanwhile; 0: nothing.
  int64_t next = 0;

  int64_t value_bytes() const { return is_bfloat16 ? 2 : 4; }

  // `count` rows from `first` on, `to_stride` apart, with zeros behind their K values.
  void load(int64_t first, int64_t count, int64_t K, float* to, int64_t to_stride) const {
    const int64_t begin = first * stride;
    if (is_bfloat16) {
      const auto* bits = static_cast<const uint16_t*>(data) + begin;
      bfloat16_rows_to_float(bits, stride, count, K, to, to_stride);
    }
    for (int64_t row = 0; row < count; ++row) {
      float* line = to + row * to_stride;
      if (!is_bfloat16) {
        std::copy_n(static_cast<const float*>(data) + begin + row * stride, K, line);
      }
      std::fill(line + K, line + to_stride, 0.0f);
    }
  }
  // Asks for that row of the next head. Nothing else would, since a head's rows lie far apart; and
  // row by row, as only so many can be asked for at once.
  FOVEA_ASKS_FOR_MEMORY void prefetch_next(int64_t row, int64_t K) const {
    if (next == 0) return;
    const auto* of_next = static_cast<const char*>(data) + (next + row * stride) * value_bytes();
    ask_for_row</*kToWrite=*/false>(of_next, K * value_bytes());
  }
  // Rows from `first` on where they lie, unless they are not floats.
  const float* floats(int64_t first) const {
    return is_bfloat16 ? nullptr : static_cast<const float*>(data) + first * stride;
  }
  // Zeros: the same bits in both dtypes.
  void clear(int64_t first, int64_t count, int64_t K) const {
    auto* bytes = static_cast<char*>(data) + first * stride * value_bytes();
    for (int64_t row = 0; row < count; ++row) {
      std::fill_n(bytes + row * stride * value_bytes(), K * value_bytes(), char{0});
    }
  }
  void store(int64_t first, int64_t count, int64_t K, const float* from,
             int64_t from_stride) const {
    const int64_t begin = first * stride;
    if (is_bfloat16) {
      auto* bits = static_cast<uint16_t*>(data) + begin;
      float_rows_to_bfloat16(from, from_stride, count, K, bits, stride);
      return;
    }
    for (int64_t row = 0; row < count; ++row) {
      std::copy_n(from + row * from_stride, K, static_cast<float*>(data) + begin + row * stride);
    }
  }
};

using InRowsOfHead = RowsOfHead<const void>;
using OutRowsOfHead = RowsOfHead<void>;

template <class Rows>
struct QkvOfHead {
  Rows q, k, v;
};

}  // namespace fovea::kernels::cpu
