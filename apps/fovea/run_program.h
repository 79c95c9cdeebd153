// Other programs that a command hands work to.
#pragma once

#include <string>
#include <vector>

namespace fovea::app {

// Starts a program, found in PATH, and waits for its end. -> its exit code; -1 where it did not
// start or a signal ended it. output: a file that gets its standard output; empty: it shares ours.
int run_program(const std::vector<std::string>& arguments, const std::string& output = "");

}  // namespace fovea::app
