// YAML of other programs, with what our own recipes have no need of.
#pragma once

#include <string>
#include <string_view>

#include "fovea/config/node.h"

namespace fovea {

// As parse_config_yaml, but with names for values: &name, *name and merge keys (<<), as PyYAML
// reads them. What they put in counts for the limits of config_node.h.
ConfigNode parse_foreign_yaml(std::string_view yaml, const std::string& source);

}  // namespace fovea
