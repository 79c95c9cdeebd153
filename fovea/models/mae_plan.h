#pragma once

#include "fovea/models/mae_config.h"
#include "fovea/parallel/plan.h"

namespace fovea::models {

parallel::ParallelPlan parallel_plan(const MaeConfig& config);

}  // namespace fovea::models
