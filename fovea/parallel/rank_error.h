// What went wrong between processes.
#pragma once

#include <string>

#include "fovea/core/error.h"

namespace fovea::parallel {

// Another rank failed, is gone or does not answer. The exit code is that of the failure where it is
// known, else kHang.
class RankError : public Error {
 public:
  explicit RankError(const std::string& message, ExitCode code = ExitCode::kHang)
      : Error(message), code_(code) {}
  ExitCode exit_code() const override { return code_; }

 private:
  ExitCode code_;
};

}  // namespace fovea::parallel
