// Writes folders of torch.distributed.checkpoint.
#pragma once

#include <functional>
#include <string>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/torch_object.h"

namespace fovea::weights {

// `path` becomes a folder with one file of parts and the index, as one process writes them. Each
// tensor and each value that is none is a part of its own, as torch divides a state dict. The index
// comes last: without it the folder is none. Throws CheckpointError: something is there already, or
// the system refuses. before_commit: see write_safetensors.
void write_dcp_folder(const std::string& path, const TorchDict& state_dict,
                      const std::function<void()>& before_commit = {});
// The state dict {top: {name: tensor}}, or {name: tensor} where `top` is empty.
void write_dcp_folder(const std::string& path, const nn::NamedTensors& tensors,
                      const std::string& top = "model",
                      const std::function<void()>& before_commit = {});

}  // namespace fovea::weights
