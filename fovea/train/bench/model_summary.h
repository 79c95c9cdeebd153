// What a recipe's model costs, of a sample as the recipe's data has it.
#pragma once

#include "fovea/models/model.h"
#include "fovea/models/summary.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// As models::summarize, also of models that take adaptive patches. model: config.model, on the
// meta device. Throws ConfigError where the model takes adaptive patches and the recipe does not
// say which.
models::ModelSummary summarize_model(const TrainConfig& config, models::Model& model);

// Of one image: 2 for each multiply-add of a matrix product that is made, so without what nobody
// reads of the last block, which summarize_model has; see Note [Counting] in models/summary.h.
// Throws as summarize_model.
double inference_flops_per_image(const TrainConfig& config);

// Forward, of the tokens that patch dropout leaves, and backward taken as twice that. What is
// computed a second time (recompute), and what a frozen part or drop_path_skip saves, is left out
// of account. Throws as summarize_model.
double training_flops_per_image(const TrainConfig& config);

}  // namespace fovea::train
