// What the user is told of an exception, and the exit code that it becomes.
#pragma once

#include <exception>
#include <string>

#include "fovea/core/error.h"

namespace fovea::app {

struct Failure {
  std::string message;
  ExitCode code = ExitCode::kUsage;
};

Failure failure_of(const std::exception& error);

// From here on an exception that nobody catches, and a library that ends the process, become a
// message and an exit code as well. At once where the working directory is gone: MKL ends the
// process over it while it is loaded.
void catch_last_failures();

}  // namespace fovea::app
