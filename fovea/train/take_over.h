// A run that another system began: its weights are loaded by session.h, the rest is here.
#pragma once

#include <cstdint>

#include "fovea/models/model.h"
#include "fovea/optim/ema.h"
#include "fovea/optim/optimizer.h"
#include "fovea/train/config.h"

namespace fovea::train {

// Puts AdamW's moments and the number of steps of init.optimizer into `optimizer`; where `ema` is
// not null and the file has averaged weights (timm's state_dict_ema), those into `ema`. Nothing is
// changed unless all of it fits. -> the step at which the run goes on: init.step, or the number of
// steps taken; 0 without either.
// Throws ConfigError: another optimizer than AdamW; DataError, CheckpointError: what
// weights::read_moments throws, and a table of moments that are missing, unexpected, or of another
// shape. What the recipe says otherwise than the file (betas, eps, weight decay) is a warning.
int64_t take_over_run(const TrainConfig& config, const models::Model& model,
                      optim::Optimizer& optimizer, optim::Ema* ema);

}  // namespace fovea::train
