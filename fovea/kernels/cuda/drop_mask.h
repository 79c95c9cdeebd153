// The words of Note [Drop masks] (../drop.h) on a GPU, bit for bit as the CPU draws them.
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
  uint32_t step;
  uint32_t threshold;  // drop_threshold() of the rate
  float scale;         // of what is kept
};

// rows: [B], mask: [B, E], both contiguous on the current device.
void draw_drop_mask(const int64_t* rows, const DropMaskShape& shape, const DropMaskDraw& draw,
                    float* mask, Stream stream);

}  // namespace fovea::kernels::cuda
