// The types of numbers that arrays in files are made of.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::data {

enum class ScalarType {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kUint64,
  kInt64,
  kFloat16,
  kFloat32,
  kFloat64,
};

int64_t bytes_of(ScalarType type);
// "uint8" ... "float64": NumPy's names.
std::string_view name_of(ScalarType type);
// All names, for the choices of a config.
std::vector<std::string> scalar_type_names();
// Throws DataError for a name that is not among scalar_type_names().
ScalarType scalar_type_named(std::string_view name);

// NumPy's code of an array's type: "<f4", ">i2", "|u1"; "|b1" reads as uint8.
struct NumpyType {
  ScalarType type = ScalarType::kUint8;
  std::endian order = std::endian::little;
};
// Throws DataError naming `source` for every other code.
NumpyType numpy_type(std::string_view code, std::string_view source);

// IEEE 754 binary16.
float half_to_float(uint16_t bits);

}  // namespace fovea::data
