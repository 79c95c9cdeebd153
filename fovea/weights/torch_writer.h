// Writes weights as torch.save does.
#pragma once

#include <functional>
#include <string>

#include "fovea/core/atomic_file.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::weights {

// A dict of name -> tensor that torch.load(path, weights_only=True) gives back: contiguous CPU
// tensors, each with a storage of its own. Any device and layout; atomic. Throws CheckpointError.
// before_commit: see write_safetensors.
void write_torch_file(const std::string& path, const nn::NamedTensors& tensors,
                      const std::function<void()>& before_commit = {});

// One tensor by itself, as an archive that begins where `file` stands. -> its bytes. The owner of
// the file commits it. Throws CheckpointError for a dtype that torch does not save so; Error.
uint64_t append_torch_tensor(AtomicFile& file, const at::Tensor& tensor);

}  // namespace fovea::weights
