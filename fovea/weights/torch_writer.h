// Writes what torch.save does.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "fovea/nn/tensor_file.h"
#include "fovea/weights/torch_object.h"

namespace fovea::weights {

// What torch.load(path, weights_only=True) gives back: its tensors contiguous, on the CPU, each
// with a storage of its own. Any device and layout; atomic. Throws CheckpointError. before_commit:
// see write_safetensors.
void write_torch_file(const std::string& path, const TorchObject& root,
                      const std::function<void()>& before_commit = {});
// A dict of name -> tensor.
void write_torch_file(const std::string& path, const nn::NamedTensors& tensors,
                      const std::function<void()>& before_commit = {});

// {name: tensor}, in order.
TorchDict dict_of(const nn::NamedTensors& tensors);

using ByteSink = std::function<void(std::span<const std::byte>)>;  // may throw
// One object by itself, as an archive. -> its bytes. Throws CheckpointError for a dtype that torch
// does not save so, and what the sink throws.
uint64_t write_torch_object(const ByteSink& sink, const TorchObject& object);

}  // namespace fovea::weights
