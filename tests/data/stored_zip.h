// Archives of arrays, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/zip_of.h"

namespace fovea::data::testing {

inline std::vector<uint8_t> stored_zip(
    const std::vector<std::pair<std::string, std::vector<uint8_t>>>& members) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (const auto& [name, bytes] : members)
    texts.emplace_back(name, std::string(bytes.begin(), bytes.end()));
  return support::stored_zip(texts);
}

// An .npy file of bytes. shape: as NumPy prints it, "(2, 3)".
inline std::vector<uint8_t> npy_of_bytes(const std::string& shape,
                                         const std::vector<uint8_t>& values) {
  auto header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::vector<uint8_t> npy = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  npy.push_back(static_cast<uint8_t>(header.size()));
  npy.push_back(static_cast<uint8_t>(header.size() >> 8));
  npy.insert(npy.end(), header.begin(), header.end());
  npy.insert(npy.end(), values.begin(), values.end());
  return npy;
}

}  // namespace fovea::data::testing
