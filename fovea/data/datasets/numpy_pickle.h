// NumPy's arrays of numbers among the values of a pickle.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "fovea/data/volume/stored_array.h"
#include "fovea/files/pickle.h"

namespace fovea::data {

// The names that such pickles may hold, for PickleOptions.
std::span<const std::string_view> numpy_pickle_names();

// Its bytes stay the pickle's. Throws DataError naming `source`: no array, one of objects, in
// Fortran order, or with another number of bytes than its shape needs.
StoredArray numpy_array(const PickleValue& value, const std::string& source);

}  // namespace fovea::data
