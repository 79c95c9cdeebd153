// A run that another system, or another run of Fovea's, began. Of another system's the weights are
// loaded by session.h, the rest is here.
#pragma once

#include <cstdint>

#include "fovea/models/model.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/state/sharding.h"

namespace fovea::train {

// Puts the moments and the number of steps of init.optimizer into `optimizer`; where `ema` is
// not null and the file has averaged weights (timm's state_dict_ema), those into `ema`. Nothing is
// changed unless all of it fits. -> the step at which the run goes on: init.step, or the number of
// steps taken; 0 without either.
// Of Fovea's own runs and checkpoints all of the state, with the weights; collective where
// parameters are shared out.
// Throws ConfigError: another optimizer than the file's, no init.step for a file that counts no
// steps, weights of another file than a run's own state; DataError, CheckpointError: what
// weights::read_moments throws, and a table of moments that are missing, unexpected, or of another
// shape. What the recipe says otherwise than the file (betas, eps, weight decay) is a warning.
int64_t take_over_run(const TrainConfig& config, models::Model& model, optim::Optimizer& optimizer,
                      optim::Ema* ema, const Sharing& sharing = {});

}  // namespace fovea::train
