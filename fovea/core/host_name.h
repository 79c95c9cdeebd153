// The name of this machine.
#pragma once

#include <string>

namespace fovea {

// otherwise: where it does not know its own.
std::string host_name(const std::string& otherwise);

}  // namespace fovea
