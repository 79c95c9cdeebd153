// The program as a user meets it: a command line in; exit code and output back.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <memory>
#include <string>

namespace fovea::testing {

struct ProgramResult {
  int exit_code = -1;  // 128 + the signal where a signal ended it, as shells report it
  std::string output;  // standard output and standard error together
};

// Runs `prefix fovea arguments` in a shell; `prefix` may set limits or variables.
inline ProgramResult run_fovea(const std::string& arguments, const std::string& prefix = "") {
  const auto command = "exec 2>&1; " + prefix + " \"" FOVEA_BINARY "\" " + arguments;
  ProgramResult result;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, pipe)) {
    result.output.append(buffer, count);
  }
  const int status = pclose(pipe);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace fovea::testing
