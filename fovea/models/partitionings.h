// How each model of the registry is shared out.
#pragma once

#include "fovea/models/model_config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

// Of the model that build_model makes of this config: a rule for each of its parameters.
parallel::Partitioning partitioning_of(const ModelConfig& config);

}  // namespace fovea::models
