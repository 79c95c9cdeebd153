// Writes what torch.save does.
#pragma once

#include <functional>
#include <string>

#include "fovea/files/atomic_file.h"
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

// One object by itself, as an archive that begins where `file` stands. -> its bytes. The owner of
// the file commits it. Throws CheckpointError for a dtype that torch does not save so; Error.
uint64_t append_torch_object(AtomicFile& file, const TorchObject& object);

}  // namespace fovea::weights
