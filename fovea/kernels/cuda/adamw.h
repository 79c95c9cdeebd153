// AdamW over flat buffers (../adamw.h) on a GPU, in one pass.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/update_elements.h"

namespace fovea::kernels::cuda {

// All on the current device and aligned to 16 bytes, as flat buffers are.
struct AdamWTensors {
  float* param;
  const float* grad;
  float *exp_avg, *exp_avg_sq;
  // Null: not wanted.
  const double* clip;  // [3] of clip_state
  float* average;      // becomes lerp(average, new parameters, average_weight)
  float average_weight;
  void* copy;  // bfloat16: becomes the new parameters, rounded
};

// begin: a multiple of 4.
struct AdamWTile {
  int64_t begin, count, group;
};

// tiles: [num_tiles], above 0; groups: coefficients, by a tile's group. Both on the device.
void adamw_step(const AdamWTensors& tensors, const AdamWTile* tiles, int64_t num_tiles,
                const AdamWCoefficients* groups, Stream stream);

// P: partial sums of squares of so many elements.
int64_t norm_parts(int64_t count);
// grad: [count], parts: [P], not read before it is written; state: [3], the norm, the factor that
// makes it max_norm at most, and whether it is not finite.
void clip_state(const float* grad, int64_t count, double max_norm, double* parts, double* state,
                Stream stream);

}  // namespace fovea::kernels::cuda
