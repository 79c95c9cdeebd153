// What a recipe's `init` says of the weights that a run starts from.
#pragma once

#include <string>

#include "fovea/models/model_config.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// What init.weights names, or with model.pretrained the repository of timm's weights; empty: the
// run starts from values that are drawn.
std::string named_init_weights(const TrainConfig& config);

// How init.weights is loaded.
models::LoadOptions load_options(const InitConfig& config);
// The same of a file that named_init_weights stands for: with model.pretrained the classifier stays
// as initialised where the file has none, or one of another number of classes.
models::LoadOptions load_options(const TrainConfig& config, const std::string& path);

// Says where a weights file holds another model than this, of the same shapes: what a recipe
// changes on purpose.
void warn_of_other_model(const std::string& path, const models::ModelConfig& model);

}  // namespace fovea::train
