// trainer.concurrent_passes of a run.
#pragma once

#include <memory>

#include "fovea/models/model.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/step/concurrent_passes.h"
#include "fovea/train/step/step.h"

namespace fovea::train {

// For steps of the model with `options`; null: passes come one after another, as asked for, or with
// `auto` where nothing else can be. Throws ConfigError where a number was given that cannot be.
std::unique_ptr<ConcurrentPasses> make_concurrent(const TrainConfig& config,
                                                  const models::Model& model,
                                                  const StepOptions& options);

}  // namespace fovea::train
