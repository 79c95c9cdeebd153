// Options that several commands have.
#pragma once

#include <string>
#include <vector>

#include "apps/fovea/command_line.h"

namespace fovea::app {

inline constexpr const char* kOverrideType = "a.b=c";  // what help calls such an argument

// The positional arguments `a.b=c`: changes to a config, such as the `example` "model.depth=6".
void add_overrides(Command command, std::vector<std::string>& overrides,
                   const std::string& example);

}  // namespace fovea::app
