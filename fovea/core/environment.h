// Variables of the environment.
#pragma once

#include <string>
#include <string_view>

namespace fovea {

// `otherwise` where it is not set, or set to nothing.
std::string environment_variable(const char* name, std::string_view otherwise = {});

}  // namespace fovea
