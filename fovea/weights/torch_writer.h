// Writes weights as torch.save does.
#pragma once

#include <string>

#include "fovea/nn/tensor_file.h"

namespace fovea::weights {

// A dict of name -> tensor that torch.load(path, weights_only=True) gives back: contiguous CPU
// tensors, each with a storage of its own. Any device and layout; atomic. Throws CheckpointError.
void write_torch_file(const std::string& path, const nn::NamedTensors& tensors);

}  // namespace fovea::weights
