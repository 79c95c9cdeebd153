// What timm's weights of a model were trained on, by the tag behind its name.
#pragma once

#include <string>

#include "fovea/recipe_import/recipe_import.h"

namespace fovea::recipe_import {

// plain: what the model has without a tag. name: "vit_base_patch16_224.mae". A tag that is not
// known leaves `plain` as it is; of timm's names those of `fovea list models` are known.
ModelInput input_of_tag(const std::string& name, ModelInput plain);

}  // namespace fovea::recipe_import
