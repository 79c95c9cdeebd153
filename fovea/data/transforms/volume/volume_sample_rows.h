// Voxels along a straight line through a volume: the inner loops of affine resampling.
#pragma once

#include <cstdint>

#include "fovea/data/transforms/volume/volume_padding.h"
#include "fovea/data/transforms/volume/volume_view.h"

namespace fovea::data {

// Output voxel x of a row lies at start + x * step in the volume (D, H, W).
struct SampledRow {
  Point start;
  Point step;
  int64_t count = 0;
  int64_t out_channel_step = 0;  // elements from a channel of the output to the next
};

// Writes `count` values of each channel, interpolated between the eight voxels around each place.
void sample_linear(const FieldView<float>& in, const SampledRow& row, PaddingMode padding,
                   float* out);

// Writes the voxels nearest to each place; halves go to the even one; 0 outside for kZeros.
template <class T>
void sample_nearest(const FieldView<T>& in, const SampledRow& row, PaddingMode padding, T* out);

}  // namespace fovea::data
