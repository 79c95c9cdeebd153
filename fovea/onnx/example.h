// Numbers to try an exported model on.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "fovea/models/model.h"
#include "fovea/onnx/trace.h"

namespace fovea::onnx {

// A batch of `count` for an input of the model, drawn from the seed: normal numbers, patches of
// which some are padding, time steps and classes that there are.
at::Tensor example_input(const models::Model& model, const TracedInput& input, int64_t count,
                         int64_t num_time_steps, uint64_t seed);

}  // namespace fovea::onnx
