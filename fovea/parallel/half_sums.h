// What the two halves of a gradient have to do with each other.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace fovea::parallel {

// Note [Halves of a gradient]
// The root of the tree over slots is A + B, what the first and the second half of the slots come
// to. Where the two lie beside each other to be added, <A, A>, <B, B> and <A, B> are taken in
// float64: no further exchange, no copy of a gradient. The flat gradient is cut into tiles of one
// size, each of which is summed by itself in one order, by whoever adds it up; tiles are then added
// in their order. So the three numbers have the same bits on any number of ranks.
inline constexpr int64_t kHalfTile = 1 << 16;  // elements

inline int64_t num_half_tiles(int64_t elements) { return (elements + kHalfTile - 1) / kHalfTile; }

// a, b: [n] of one dtype and device -> [num_half_tiles(n), 3] float64: <a, a>, <b, b>, <a, b>.
at::Tensor half_sums(const at::Tensor& a, const at::Tensor& b);

// [T, 3] on the CPU -> [3]: the tiles added up, in their order.
at::Tensor add_tiles(const at::Tensor& tiles);

}  // namespace fovea::parallel
