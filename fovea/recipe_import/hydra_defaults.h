// Defaults lists of Hydra's configurations.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/config/node.h"

namespace fovea::recipe_import {

// An entry of a defaults list.
struct HydraDefault {
  std::string group;                   // "" of a file without a group
  std::vector<std::string> names;      // none of `group: null`
  std::optional<std::string> package;  // behind the @
  bool is_absolute = false, is_optional = false, is_override = false, is_self = false;
  bool is_missing = false;  // ???
};

// A file of Hydra's: what it says, and what it is composed of.
struct HydraFile {
  ConfigNode content;
  std::vector<HydraDefault> defaults;
  std::optional<std::string> header;  // # @package
};

// Without _self_ in its list the file itself comes last, as of Hydra 1.1 on.
HydraFile read_hydra_file(const std::string& file);

}  // namespace fovea::recipe_import
