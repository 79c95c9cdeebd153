// What is thrown where a file cannot be written: a full disk, a folder that allows it to nobody.
#pragma once

#include "fovea/core/error.h"

namespace fovea {

// Not a DataError: what was read is not at fault, and whoever passes bad files over must not pass
// this over.
class WriteError : public Error {
 public:
  using Error::Error;
  ExitCode exit_code() const override { return ExitCode::kData; }
};

}  // namespace fovea
