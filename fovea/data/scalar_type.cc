#include "fovea/data/scalar_type.h"

#include <array>

#include "fovea/core/error.h"

namespace fovea::data {
namespace {

struct Entry {
  ScalarType type;
  std::string_view name;
  std::string_view code;  // NumPy's, without the byte order
  int64_t bytes;
};

constexpr std::array<Entry, 11> kTypes = {{
    {ScalarType::kUint8, "uint8", "u1", 1},
    {ScalarType::kInt8, "int8", "i1", 1},
    {ScalarType::kUint16, "uint16", "u2", 2},
    {ScalarType::kInt16, "int16", "i2", 2},
    {ScalarType::kUint32, "uint32", "u4", 4},
    {ScalarType::kInt32, "int32", "i4", 4},
    {ScalarType::kUint64, "uint64", "u8", 8},
    {ScalarType::kInt64, "int64", "i8", 8},
    {ScalarType::kFloat16, "float16", "f2", 2},
    {ScalarType::kFloat32, "float32", "f4", 4},
    {ScalarType::kFloat64, "float64", "f8", 8},
}};

const Entry& entry_of(ScalarType type) { return kTypes[static_cast<size_t>(type)]; }

}  // namespace

int64_t bytes_of(ScalarType type) { return entry_of(type).bytes; }

std::string_view name_of(ScalarType type) { return entry_of(type).name; }

std::vector<std::string> scalar_type_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kTypes) names.emplace_back(entry.name);
  return names;
}

ScalarType scalar_type_named(std::string_view name) {
  for (const Entry& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  fail<DataError>("\"{}\" is no type of numbers that is read; expected uint8 to float64", name);
}

NumpyType numpy_type(std::string_view code, std::string_view source) {
  const bool has_order = code.size() == 3 && (code[0] == '<' || code[0] == '>' || code[0] == '|');
  const auto kind = has_order ? code.substr(1) : code;
  if (kind == "b1") return {ScalarType::kUint8, std::endian::little};
  for (const Entry& entry : kTypes) {
    if (entry.code != kind || (has_order && code[0] == '|' && entry.bytes > 1)) continue;
    return {entry.type, has_order && code[0] == '>' ? std::endian::big : std::endian::little};
  }
  fail<DataError>("{}: NumPy's type '{}' is not read; expected numbers, from u1 to f8", source,
                  code);
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FFu;
  if (exponent == 0) {  // zero and what is too small for an exponent: fraction * 2^-24
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  const uint32_t widened = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

}  // namespace fovea::data
