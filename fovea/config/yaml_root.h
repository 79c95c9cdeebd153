// YAML files of ours that are no recipe.
#pragma once

#include <string>
#include <string_view>

#include "fovea/config/node.h"

namespace fovea {

// As parse_config_yaml, but what it is, a list or a map, is left to the caller.
ConfigNode parse_yaml_root(std::string_view yaml, const std::string& source);

}  // namespace fovea
