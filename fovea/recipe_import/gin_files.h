// Gin files and what they include.
#pragma once

#include <string>
#include <vector>

#include "fovea/config/node.h"
#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/shell.h"

namespace fovea::recipe_import {

// text: that of `file`. An included name is looked for as gin does, from the working folder and
// from each of `search_paths` on; then from the folders around `file`, since upstream's names start
// at its repository, and last beside files that were found. Throws ConfigError, which names the
// places, where it is in none.
ConfigNode read_gin_file(const std::string& file, const std::string& text,
                         const std::vector<std::string>& search_paths);

// A command of t5x: the files of --gin_file, with --gin.KEY=VALUE, whose KEY may be the end of a
// name, and --gin_search_paths; other flags under their own names with dashes. What only the shell
// knows is unknown, with all that refers to it. Throws ConfigError: no --gin_file, or one that only
// the shell knows.
Settings gin_command(const ShellCommand& shell, const std::string& source,
                     std::vector<std::string> search_paths);

}  // namespace fovea::recipe_import
