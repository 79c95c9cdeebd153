// One leaf resampled, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "fovea/data/adaptive/resample.h"
#include "fovea/data/adaptive/tree.h"

namespace fovea::data::patching {

inline constexpr float kUnscaled = 1, kUnshifted = 0;

// in: rows of `channels` interleaved values; out: channel after channel, each [D, H, W] with its
// own strides in elements. Bytes are clipped to 0 to 255 on the way out, floats are not.
template <class T>
struct Block {
  const T* in = nullptr;
  int64_t in_slice = 0;
  int64_t in_row = 0;
  int64_t channels = 1;
  const AxisWeights* depth = nullptr;
  const AxisWeights* height = nullptr;
  const AxisWeights* width = nullptr;
  float* out = nullptr;
  int64_t out_channel = 0;
  int64_t out_slice = 0;
  int64_t out_row = 0;
  const float* scale = &kUnscaled;   // [channels]
  const float* shift = &kUnshifted;  // [channels]
  float* buffer = nullptr;           // block_buffer_size elements
};

// Elements of `buffer` that a block needs.
int64_t block_buffer_size(int64_t rows, int64_t width, int64_t channels, int64_t out_width);

// What a leaf becomes.
inline TreeBox patch_box(int64_t p, bool is_volume) {
  const auto side = static_cast<int32_t>(p);
  return {0, 0, 0, is_volume ? side : 1, side, side};
}

// Sets all that follows from the sides of what is resampled and of what it becomes; needs channels.
template <class T>
void set_sides(Block<T>& block, const TreeBox& in, const TreeBox& out, const ResampleRules& rules,
               ResampleScratch& scratch) {
  block.depth = &scratch.axis(in.depth, out.depth, rules);
  block.height = &scratch.axis(in.height, out.height, rules);
  block.width = &scratch.axis(in.width, out.width, rules);
  block.buffer =
      scratch.buffer(block_buffer_size(int64_t{in.depth} * in.height, in.width, block.channels,
                                       in.width > out.width ? 0 : out.width));
}

void resample_block(const Block<uint8_t>& block);
void resample_block(const Block<float>& block);

// The steps of a block whose width shrinks, for leaves that are not in memory as a whole. First the
// columns: sums [count] = line * weight where is_first, else sums += line * weight. Then the width:
// sums [W, C] -> one row of each channel, out [P], channels block.out_channel apart; of `block`
// only what belongs to the width, the channels and the values is read.
void add_weighted_line(const uint8_t* line, float weight, int64_t count, bool is_first,
                       float* sums);
void add_weighted_line(const float* line, float weight, int64_t count, bool is_first, float* sums);
void reduce_weighted_line(const Block<uint8_t>& block, const float* sums, float* out);
void reduce_weighted_line(const Block<float>& block, const float* sums, float* out);

}  // namespace fovea::data::patching
