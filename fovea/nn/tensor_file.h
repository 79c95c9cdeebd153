// Tensors in and out of files: safetensors with any number of named tensors, .npy with one.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fovea/files/npy.h"
#include "fovea/files/safetensors.h"

namespace fovea::nn {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// "F32" <-> at::kFloat ... Throw DataError for a dtype that the other side does not have.
std::string safetensors_dtype(at::ScalarType dtype);
at::ScalarType dtype_of_safetensors(std::string_view dtype);

// A copy of an entry's bytes as a CPU tensor.
at::Tensor to_tensor(const SafetensorsEntry& entry);
// All of a file's tensors as views of its mapped bytes, for reading alone: memory is taken page by
// page as they are read, and can be given up again. One that does not lie at a multiple of its
// element's size is a copy.
NamedTensors mapped_tensors(const SafetensorsFile& file);
// A contiguous CPU tensor as an entry; the bytes stay the tensor's.
SafetensorsEntry to_entry(const std::string& name, const at::Tensor& tensor);

// The array of a .npy file's bytes, in C order; two bytes of no type ("|V2") are bfloat16, for
// which NumPy has no name. Throws DataError naming `source`.
at::Tensor npy_tensor(std::string_view bytes, const std::string& source);

// An array that was read. Throws DataError where its dtype is none of a tensor's.
at::Tensor array_tensor(const NpyArray& array);

// True for names that end in .npy or .safetensors.
bool is_tensor_file(const std::string& path);

// The tensor of a .npy file (named "array"), or all of a .safetensors file. Throws DataError.
NamedTensors read_tensor_file(const std::string& path);

// The only tensor of a file; of several, the one named `preferred`. Throws DataError.
at::Tensor read_one_tensor(const std::string& path, const std::string& preferred);

// Any device and layout; written atomically. Throws ConfigError: another ending, several tensors
// for a .npy. before_commit: see write_safetensors.
void write_tensor_file(const std::string& path, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {},
                       const std::function<void()>& before_commit = {});

}  // namespace fovea::nn
