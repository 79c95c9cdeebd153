// What a recipe's `init` says of the weights that a run starts from.
#pragma once

#include <string>

#include "fovea/models/model_config.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// How init.weights is loaded.
models::LoadOptions load_options(const InitConfig& config);

// Says where a weights file holds another model than this, of the same shapes: what a recipe
// changes on purpose.
void warn_of_other_model(const std::string& path, const models::ModelConfig& model);

}  // namespace fovea::train
