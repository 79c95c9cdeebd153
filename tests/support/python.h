// Python tools in tests: run where $FOVEA_PYTHON names an interpreter with their packages.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace fovea::support {

// $FOVEA_PYTHON; empty where it is not set.
inline std::string python() {
  const char* chosen = std::getenv("FOVEA_PYTHON");
  return chosen ? chosen : "";
}

struct CommandResult {
  int status = 0;
  std::string output;  // of standard output
};

inline CommandResult run_command(const std::string& command) {
  CommandResult result;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  char buffer[4096];
  for (size_t size; (size = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    result.output.append(buffer, size);
  }
  result.status = pclose(pipe);
  return result;
}

}  // namespace fovea::support

#define FOVEA_NEEDS_PYTHON()                                                               \
  if (::fovea::support::python().empty()) {                                                \
    GTEST_SKIP()                                                                           \
        << "set FOVEA_PYTHON to a Python with what tools/setup/python-packages.txt lists " \
           "(tools/setup/python_env makes one)";                                           \
  }
