// Numbers as our own files have them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace fovea {

// Adds an integer to the end of `out`.
template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    out += static_cast<char>(static_cast<std::make_unsigned_t<T>>(value) >> (8 * i));
  }
}

inline void put(std::string& out, double value) { put(out, std::bit_cast<uint64_t>(value)); }

}  // namespace fovea
