// What every reader of arrays hands over: numbers as they lie in a file, in C order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/scalar_type.h"

namespace fovea::data {

// Of a .npy file, a member of a .npz file, a pickle, or a part of an HDF5 file.
struct StoredArray {
  std::string source;  // for messages
  NumpyType type;
  std::vector<int64_t> shape;
  std::shared_ptr<const void> owner = {};  // of the bytes; null: whoever made the array keeps them
  std::span<const uint8_t> bytes = {};
};

}  // namespace fovea::data
