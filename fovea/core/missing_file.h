// The DataError of a path under which nothing stands, for callers that tell it from damaged files.
#pragma once

#include "fovea/core/error.h"

namespace fovea {

class MissingFileError : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace fovea
