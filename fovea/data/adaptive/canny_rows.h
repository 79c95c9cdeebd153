// The row loops of Canny's detector, compiled for each instruction set. All rows are planar; a row
// pointer may be read kRowMargin elements before its start and past its end.
#pragma once

#include <cstdint>

namespace fovea::data::patching {

inline constexpr int64_t kRowMargin = 64;  // elements: no vector of any instruction set is longer

// in [W, C] bytes -> C planes of bytes, `stride` bytes apart.
void split_channels(const uint8_t* in, int64_t width, int64_t channels, uint8_t* planes,
                    int64_t stride);

// One row of a Gaussian blur of kernel size 1, 3 or 5 (binomial weights). rows: the `size` source
// rows, from above. sums: room for W + 2 kRowMargin values. out [W], its ends repeated once beyond.
void blur_row(const uint8_t* const* rows, int64_t size, int64_t width, uint16_t* sums,
              int16_t* out);

// Where the gradient of a pixel points: horizontal, vertical, or along one of the diagonals.
// rows: the blurred rows above, at and below; plane c is c * stride further on. magnitude [W] is
// |dx| + |dy| of the channel where that is largest, with zeros beyond both ends; direction [W].
void sobel_row(const int16_t* const rows[3], int64_t channels, int64_t stride, int64_t width,
               int16_t* magnitude, int16_t* direction);

// Pixels above `low` that are largest across the edge -> candidates; of them those above `high` ->
// strong. One bit a pixel, ceil(W / 64) words each.
void suppress_row(const int16_t* const magnitudes[3], const int16_t* direction, int64_t width,
                  int low, int high, uint64_t* candidates, uint64_t* strong);

}  // namespace fovea::data::patching
