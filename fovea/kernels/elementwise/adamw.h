// AdamW over flat float32 buffers in one pass over memory, on the CPU and on a GPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <vector>

#include "fovea/kernels/elementwise/update_elements.h"

namespace fovea::kernels {

// [num_elements] each, contiguous, float32, on one device.
struct AdamWBuffers {
  at::Tensor param, grad, exp_avg, exp_avg_sq;
};

// What else is done on the way; undefined: it is not.
struct AdamWExtras {
  // Of clip_state(): gradients are multiplied by grad_scale and the factor, each product rounded,
  // and nothing at all changes where something is not finite. Read on the device: nobody waits for
  // it.
  at::Tensor clip;
  // [num_elements] float32: becomes lerp(average, new parameters, average_weight of the group).
  at::Tensor average;
  // [num_elements] bfloat16: becomes the new parameters, rounded.
  at::Tensor copy;
};

// One row of the table of tiles: `count` elements from `begin`, a multiple of 16, on, with the
// coefficients of `group`. [T, 3] int64.
inline constexpr int64_t kAdamWTileColumns = 3;

// Whether adamw_step works on tensors of the device.
bool has_adamw_step(c10::Device device);

// G groups, one or more, as adamw_step takes them: [G, 8] float32 on `device`. In a recorded step
// (host_part.h) `groups`, which outlives it, is read again before each replay.
at::Tensor adamw_coefficients(const std::vector<AdamWCoefficients>& groups, c10::Device device);

// One step for the elements of all tiles, which do not overlap. tiles, coefficients: on the device
// of the buffers. Tiles decide nothing about the result.
void adamw_step(const AdamWBuffers& buffers, const at::Tensor& tiles,
                const at::Tensor& coefficients, const AdamWExtras& extras = {});

struct ClipOptions {
  double max_norm = 0;  // 0: none
  double grad_scale = 1;
  // On the device of the gradients; undefined: there is none.
  at::Tensor loss = {};    // [] float64
  at::Tensor before = {};  // [4]: what was not finite stays so
};

// grad: [num_elements] float32 -> [4] float64 (ClipElement) on its device: the Euclidean norm of
// grad * grad_scale, products rounded to float32, sums in float64 and in an order that depends on
// the size alone; the factor that makes it `max_norm` at most (max_norm / (norm + 1e-6), at most 1;
// 1 for max_norm 0); 1 where the norm or the loss is not finite or was not before, else 0;
// grad_scale.
at::Tensor clip_state(const at::Tensor& grad, const ClipOptions& options);

}  // namespace fovea::kernels
