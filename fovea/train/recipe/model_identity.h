// What tells a model of one shape from those of others.
#pragma once

#include <string>

#include "fovea/models/model_config.h"

namespace fovea::train {

// "vit depth=6 embed_dim=96 ...": the model's name and all that its config has other than the
// defaults, so that models of other shapes have other names. A long one ends in its sum.
std::string model_identity(const models::ModelConfig& model);

}  // namespace fovea::train
