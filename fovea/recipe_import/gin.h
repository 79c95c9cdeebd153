// Gin files (github.com/google/gin-config), the configuration of t5x programs, as a flat tree.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "fovea/config/node.h"

namespace fovea {

// Text of a file that another one includes, by the name that stands there. May throw ConfigError.
using GinIncludes = std::function<std::string(const std::string& name)>;

// A map from "scope/module.Class.parameter", or a macro's name, to its value; the last binding of a
// name counts. Values are Python literals: numbers, texts, True, False, None, lists, tuples (both
// become lists) and dicts. `%MACRO` becomes the macro's value, or stays where none is bound;
// `@reference()` stays a text. Imports are passed over. Throws ConfigError ("pretrain.gin:3: ...")
// for anything else, and past the limits of config_node.h.
ConfigNode parse_gin(std::string_view text, const std::string& source,
                     const GinIncludes& includes = {});

}  // namespace fovea
