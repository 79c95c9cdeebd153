// The recipes that come with Fovea, and what a misspelt recipe, run folder or model was meant to
// be.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace fovea::train {

// The folder `recipes` here, or beside the program or one of the folders above it; nothing where
// there is none.
std::optional<std::filesystem::path> recipes_folder();
// Its recipes in order, relative to the working directory; none where there is no folder.
std::vector<std::string> shipped_recipes();

// Of a recipe or run folder that is not there: "; did you mean X?" with the nearest file, or the
// recipe of Fovea's that has such a name; or nothing.
std::string or_nearest_recipe(const std::string& unknown);
// The same where the name of a model may stand, too: the nearest, or how to see the models.
std::string or_nearest_target(const std::string& unknown);

}  // namespace fovea::train
