// Ranks of tests without the third of a second that each would take to load libtorch: main() leaves
// a copy of the program, which has loaded all and done nothing yet, and ranks are copies of that.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace fovea::parallel::testing {

// What a process was started with.
struct StartedWith {
  std::vector<std::string> arguments;    // the program's path first
  std::vector<std::string> environment;  // NAME=VALUE
};

// Call first in main(), where no thread runs yet. Goes on in this process with what it was started
// with, and in each rank with what that was.
StartedWith keep_a_copy(int argc, char** argv);

// A new child of this process that begins where keep_a_copy() returns. Its output goes where this
// program's went at its start. Throws Error.
pid_t start_from_copy(const StartedWith& with);

}  // namespace fovea::parallel::testing
