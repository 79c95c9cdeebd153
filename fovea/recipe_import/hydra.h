// Hydra's configurations: a file, the files that its defaults list names, and overrides.
#pragma once

#include <string>
#include <vector>

#include "fovea/config/node.h"
#include "fovea/recipe_import/importer.h"

namespace fovea::recipe_import {

// What Hydra 1.2 and later composes from `file` and the groups in its folder: defaults lists with
// groups, packages (@name, # @package), _self_, optional, override and null, and overrides as on
// its command line (key=value, +key=value, ++key=value, ~key, group=name, +group=name,
// group@package=name). What is under `hydra` is left out. Values that refer to others (${a.b}) are
// put in; what only a run knows (${oc.env:X}, ${now:...}) stays as it is. Throws ConfigError:
// files that are not there, choices and keys that nothing has, sweeps.
ConfigNode compose_hydra(const std::string& file, const std::vector<std::string>& overrides);

// The same as flat settings; what stays as it is, and ??? too, is unknown.
Settings hydra_settings(const std::string& file, const std::vector<std::string>& overrides);
// Of a text with the command line of a Hydra program: --config-name, --config-path, overrides. Its
// configurations are looked for in `config` beside the text, and beside it.
Settings hydra_command(const std::string& text, const std::string& source,
                       const std::vector<std::string>& overrides);

// ${a.b}, ${.b} and ${oc.env:X,default}, in texts and as whole values.
void interpolate(ConfigNode& root);

}  // namespace fovea::recipe_import
