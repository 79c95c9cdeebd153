// Tensors in and out of .npy and .safetensors files, for holding Fovea against other frameworks.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace fovea::train {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// True for the file names that these functions take.
bool is_tensor_file(const std::string& path);

// The tensor of a .npy file (under the name "array"), or all of a .safetensors file. Throws
// DataError.
NamedTensors read_tensor_file(const std::string& path);

// The one tensor of an input file; of several, the one named `preferred`. Throws DataError.
at::Tensor read_input_tensor(const std::string& path, const std::string& preferred);

// .npy holds one tensor, .safetensors any number. Throws ConfigError for another ending, or several
// tensors in .npy.
void write_tensor_file(const std::string& path, const NamedTensors& tensors);

}  // namespace fovea::train
