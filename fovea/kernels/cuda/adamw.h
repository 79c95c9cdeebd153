// AdamW over flat buffers (../adamw.h) on a GPU, in one pass.
#pragma once

#include <cstdint>

#include "fovea/kernels/cuda/launch.h"
#include "fovea/kernels/elementwise/update_elements.h"

namespace fovea::kernels::cuda {

// All on the current device and aligned to 16 bytes, as flat buffers are.
struct AdamWTensors {
  float* param;
  const float* grad;
  float *exp_avg, *exp_avg_sq;
  // Null: not wanted.
  const double* clip;  // [4] of clip_state
  float* average;      // becomes lerp(average, new parameters, average_weight of the group)
  void* copy;          // bfloat16: becomes the new parameters, rounded
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
// What ClipOptions has, on the device; null: there is none.
struct ClipInputs {
  double max_norm, grad_scale;
  const double* loss;    // [1]
  const double* before;  // [4]
};

// grad: [count], parts: [P], not read before it is written; state: [4], see ClipElement.
void clip_state(const float* grad, int64_t count, const ClipInputs& inputs, double* parts,
                double* state, Stream stream);

}  // namespace fovea::kernels::cuda
