// NumPy's .npy format, versions 1 to 3: little-endian numbers in C order. Pickled objects are
// refused, not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/core/input_file.h"

namespace fovea {

struct NpyArray {
  std::string dtype;  // NumPy's code: "<f4", "<i8", "|u1" ...
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;  // row-major
};

// What the header says of the data behind it.
struct NpyHeader {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t data_offset = 0;
  uint64_t data_bytes = 0;
};

// Throws DataError naming `source`: wrong magic, Fortran order, objects, a shape whose product
// overflows.
NpyHeader parse_npy_header(std::string_view file, const std::string& source);

// Of a file that is as long as its header says; nothing of the data is read. Throws DataError.
NpyHeader read_npy_header(const InputFile& file);

// The most values, in bytes, that read_npy takes into memory: they go through a model in one pass.
inline constexpr uint64_t kMaxNpyBytes = uint64_t{1} << 32;

// Throws DataError; also where the file is shorter or longer than its header says.
NpyArray read_npy(const std::string& path);

// Atomic. dtype as in NpyArray.
void write_npy(const std::string& path, const std::string& dtype, const std::vector<int64_t>& shape,
               std::span<const std::byte> bytes);

}  // namespace fovea
