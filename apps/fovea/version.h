// What this build is: `fovea --version`.
#pragma once

#include <string>

namespace fovea::app {

// Some lines: version and commit, libtorch, and what this machine gives it to compute with.
std::string version_text();

}  // namespace fovea::app
