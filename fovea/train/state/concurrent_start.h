// trainer.concurrent_passes of a run.
#pragma once

#include <memory>

#include "fovea/models/model.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/step/concurrent_passes.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

// Passes at once that are of use to a step of the recipe's model with `options`; 1: they come one
// after another.
int64_t most_concurrent(const TrainConfig& recipe, const models::Model& model,
                        const StepOptions& options);

// For steps of the model with `options`; null: passes come one after another, as asked for, or with
// `auto` where nothing else can be. `auto` goes by the profile of this device in
// elastic.profile_dir, where there is one of several passes at once. Throws ConfigError where a
// number was given that cannot be, DataError for profiles that are damaged or of another model or
// dtype.
std::unique_ptr<ConcurrentPasses> make_concurrent(const TrainConfig& config,
                                                  const models::Model& model,
                                                  const StepOptions& options);

}  // namespace fovea::train
