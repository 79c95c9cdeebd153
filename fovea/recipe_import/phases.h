// Several imported recipes as the phases of one (docs/phases.md).
#pragma once

#include <string>
#include <vector>

#include "fovea/recipe_import/recipe_import.h"

namespace fovea::recipe_import {

// One after the other, each with its phase's name. What all of them say stands in the recipe; what
// only some say, in their phases. The weights of a phase are those of the one before it, without
// its head where that is of another shape; its rows say so.
ImportedRecipe joined_as_phases(const std::vector<std::string>& names,
                                const std::vector<ImportedRecipe>& recipes);

// Names that phases may have, all different, from names of files.
std::vector<std::string> phase_names(const std::vector<std::string>& files);

}  // namespace fovea::recipe_import
