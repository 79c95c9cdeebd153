// What the tests of volumes and arrays share.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/volume/volume.h"
#include "tests/data/support.h"

namespace fovea::data::testing {

// "file.nifti.int16_little" ... of tests/golden/data_volumes.safetensors.
inline std::vector<uint8_t> golden_file(const std::string& name) {
  return golden("file." + name, "data_volumes").bytes;
}

template <class T>
std::vector<T> golden_values(const std::string& name) {
  return golden(name, "data_volumes").values<T>();
}

// `bytes` with the number at `offset` replaced.
template <class T>
std::vector<uint8_t> with_number(std::vector<uint8_t> bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
  return bytes;
}

inline std::vector<uint8_t> cut(const std::vector<uint8_t>& bytes, size_t count) {
  return {bytes.begin(), bytes.end() - static_cast<ptrdiff_t>(count)};
}

}  // namespace fovea::data::testing
