// MATLAB's MAT-file, level 5 (MathWorks, "MAT-File Format"): the little that annotations of image
// sets need. Numbers, text and arrays of structs are read; everything else is passed over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fovea::data {

// A variable or a field. Its elements are in MATLAB's order, down the columns.
struct MatlabArray {
  enum class Kind { kNumbers, kText, kStruct, kOther };
  Kind kind = Kind::kOther;
  std::string name;                  // of a variable; empty for a field
  std::vector<int64_t> sizes;        // of each dimension
  std::vector<double> numbers;       // kNumbers
  std::string text;                  // kText, as UTF-8
  std::vector<std::string> fields;   // kStruct: their names
  std::vector<MatlabArray> members;  // kStruct: [elements, fields]

  int64_t size() const;
  // A field of struct element `element`. Throws DataError where there is none of that name.
  const MatlabArray& field(int64_t element, std::string_view name) const;
  // The one number; throws DataError where it is not a single number.
  double number() const;
};

// All variables of a file. Throws DataError naming `name`: not a MAT-file of level 5 (7.3 is HDF5),
// big-endian, truncated, sizes that do not fit.
std::vector<MatlabArray> parse_matlab(std::span<const uint8_t> bytes, const std::string& name);

}  // namespace fovea::data
