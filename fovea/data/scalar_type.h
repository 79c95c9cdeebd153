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

struct Half {
  uint16_t bits;
  operator float() const { return half_to_float(bits); }
};

// visit(T()) with the C++ type T that `type` is.
template <class F>
void with_scalar(ScalarType type, F&& visit) {
  switch (type) {
    case ScalarType::kUint8:
      return visit(uint8_t{});
    case ScalarType::kInt8:
      return visit(int8_t{});
    case ScalarType::kUint16:
      return visit(uint16_t{});
    case ScalarType::kInt16:
      return visit(int16_t{});
    case ScalarType::kUint32:
      return visit(uint32_t{});
    case ScalarType::kInt32:
      return visit(int32_t{});
    case ScalarType::kUint64:
      return visit(uint64_t{});
    case ScalarType::kInt64:
      return visit(int64_t{});
    case ScalarType::kFloat16:
      return visit(Half{});
    case ScalarType::kFloat32:
      return visit(float{});
    case ScalarType::kFloat64:
      return visit(double{});
  }
}

}  // namespace fovea::data
