// Which recipes can train while workers come and go.
#pragma once

#include "fovea/train/recipe/config.h"

namespace fovea::train {

// Reports what would make the samples of a batch, or its loss, hang on who takes part or on a size
// that changes. beside: the key that asks for an elastic run.
void check_elastic(const TrainConfig& config, std::string_view beside, ConfigIssues& issues);

// Where the batch follows the gradients (elastic.similarity_target, or metric: noise): reports what
// does not go with it.
void check_adaptive_batch(const TrainConfig& config, ConfigIssues& issues);

}  // namespace fovea::train
