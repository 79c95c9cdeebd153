// Where slices of tensors come from, one by one: a file of a checkpoint, another process.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "fovea/checkpoint/manifest.h"

namespace fovea::checkpoint {

// A slice that a source has, under slice_key for a file.
struct SavedSlice {
  const TensorEntry* tensor = nullptr;
  const Slice* slice = nullptr;
  std::string name;  // of the tensor
};
using SavedSlices = std::map<std::string, SavedSlice>;  // by key

class SliceSource {
 public:
  virtual ~SliceSource() = default;

  // [slice.size], on the CPU, of a slice that the source was made with. Throws an Error that says
  // what is wrong with the source.
  virtual at::Tensor read(const std::string& key) = 0;
  // Of all slices that were read.
  virtual uint64_t bytes_read() const = 0;
};

}  // namespace fovea::checkpoint
