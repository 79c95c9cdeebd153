// NumPy's arrays of numbers among the values of a pickle.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/data/scalar_type.h"
#include "fovea/files/pickle.h"

namespace fovea::data {

// The names that such pickles may hold, for PickleOptions.
std::span<const std::string_view> numpy_pickle_names();

struct NumpyPickleArray {
  std::vector<int64_t> shape;
  NumpyType type;
  std::string_view bytes;  // row-major; they stay the pickle's
};

// Throws DataError naming `source`: no array, one of objects, in Fortran order, or with another
// number of bytes than its shape needs.
NumpyPickleArray numpy_array(const PickleValue& value, const std::string& source);

}  // namespace fovea::data
