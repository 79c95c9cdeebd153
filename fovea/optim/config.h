// The `optim` and `schedule` sections of a recipe.
#pragma once

#include <memory>
#include <vector>

#include "fovea/config/binding.h"
#include "fovea/config/fields.h"
#include "fovea/optim/adafactor.h"
#include "fovea/optim/adamw.h"
#include "fovea/optim/lamb.h"
#include "fovea/optim/muon.h"
#include "fovea/optim/optimizer.h"
#include "fovea/optim/schedules.h"
#include "fovea/optim/sgd.h"

namespace fovea::optim {

using OptimConfig = OneOf<AdamWConfig, SgdConfig, LambConfig, AdafactorConfig, MuonConfig>;

// `params` as made by param_groups.h.
std::unique_ptr<Optimizer> make_optimizer(const OptimConfig& config, std::vector<ParamSpec> params);

// The peak learning rate, whichever optimizer is configured.
double base_lr(const OptimConfig& config);

// Numbers that the optimizer keeps for each trained parameter, on the average and rounded: for
// estimates of memory.
int64_t states_per_parameter(const OptimConfig& config);

}  // namespace fovea::optim

namespace fovea {

// See Note [Configs compiled once] in config/binding.h.
extern template struct detail::OneOfValue<decltype(optim::OptimConfig::value)>;
extern template struct detail::BoundOneOf<optim::OptimConfig>;

}  // namespace fovea
