// The words of Note [Drop masks] (../drop.h) on a GPU, bit for bit as the CPU draws them. No header
// of libtorch: nvcc reads each three times.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "fovea/core/philox.h"

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

// rows: [B], mask: [B, E], both contiguous on the current device. What goes wrong at the launch is
// cudaGetLastError()'s.
void draw_drop_mask(const int64_t* rows, const DropMaskShape& shape, const DropMaskDraw& draw,
                    float* mask, cudaStream_t stream);

}  // namespace fovea::kernels::cuda
