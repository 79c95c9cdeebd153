// What the update multiplies the gradients of a step by.
#pragma once

#include <ATen/core/Tensor.h>

#include "fovea/train/step/step.h"

namespace fovea::train {

// Whether the norm of the gradients as they stand is all that clipping needs of them, so that it is
// part of the optimizer's pass over memory.
bool clips_in_one_pass(const StepParts& parts);

// scale: what makes the gradients, as they stand, those of the mean loss. -> PreparedStep::clip.
// Where clipping takes passes of its own they are done here, and what is left is to multiply by 1.
// loss, before: see kernels::ClipOptions. Collective where parameters are parts.
at::Tensor clip_of_step(const StepParts& parts, double scale, const at::Tensor& loss,
                        const at::Tensor& before);

}  // namespace fovea::train
