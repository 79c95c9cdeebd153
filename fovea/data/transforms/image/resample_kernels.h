// The two passes of a resize, row by row: the part that is worth vectorising.
#pragma once

#include <cstdint>
#include <vector>

namespace fovea::data {

// 32 bits less 8 for the pixel, less 2 for weights that overshoot: Pillow's choice, kept for equal
// bytes.
inline constexpr int kResizeFractionBits = 32 - 8 - 2;

// Weights of one pass: output i is the sum over k < taps of weight(i, k) * in[starts[i] + k],
// shifted by kResizeFractionBits and clamped to a byte.
//
// A weight is split as 256 * high + low, with low in [0, 255], so that two taps take one
// instruction for each half. packed: for each output and each pair of taps (k, k + 1), two
// integers: the two highs and the two lows, each in 16 bits.
struct ResizeWeights {
  int64_t count = 0;            // outputs
  int64_t taps = 0;             // of each output
  int64_t pairs = 0;            // of taps; where taps is odd the last weight is 0
  std::vector<int32_t> starts;  // [count rounded up to 4]
  std::vector<int32_t> packed;  // [count rounded up to 4, pairs, 2]
  std::vector<double> exact;    // of one output, before rounding
  std::vector<int32_t> fixed;   // of one output, before packing
};

// Rows have kRowSlack bytes to read and write behind their last pixel. in[r] [W, C] -> out[r]
// [count, C], r < rows <= 2.
void resize_columns(const uint8_t* const* in, int64_t rows, int64_t channels,
                    const ResizeWeights& weights, uint8_t* const* out);

// Output row i: in[k] [row_bytes], k < 2 * pairs -> out [row_bytes].
void resize_rows(const uint8_t* const* in, const ResizeWeights& weights, int64_t i,
                 int64_t row_bytes, uint8_t* out);

}  // namespace fovea::data
