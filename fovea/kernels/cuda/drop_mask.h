// The words of Note [Drop masks] (../elementwise/drop.h) on a GPU, bit for bit as the CPU draws
// them.
#pragma once

#include <cstdint>

#include "fovea/core/philox.h"
#include "fovea/kernels/cuda/launch.h"

namespace fovea::kernels::cuda {

struct DropMaskShape {
  int64_t rows, elements;  // B, E, both above 0
};

struct DropMaskDraw {
  PhiloxKey key;
  uint32_t threshold;  // drop_threshold() of the rate
  float scale;         // of what is kept
};

// stamp: [1 + B], the step and then the rows; mask: [B, E], both contiguous on the current device.
void draw_drop_mask(const int64_t* stamp, const DropMaskShape& shape, const DropMaskDraw& draw,
                    float* mask, Stream stream);

}  // namespace fovea::kernels::cuda
