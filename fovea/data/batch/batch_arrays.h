// The arrays of a batch by name, for whoever hands them on without knowing what they are: files,
// other languages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fovea/data/batch.h"

namespace fovea::data {

struct BatchArray {
  std::string name;            // as the member of Batch is called: "images", "patches.tokens"
  std::string dtype;           // safetensors' name: "F32", "U8", "I32", "I64"
  std::vector<int64_t> shape;  // with B in front
  std::span<std::byte> bytes;  // the batch's own, row-major
};

// Those that the batch has; of floats or bytes what it has as "images". B is always there, so that
// a share without a row has arrays of no rows.
std::vector<BatchArray> arrays_of(Batch& batch);

}  // namespace fovea::data
