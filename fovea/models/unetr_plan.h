#pragma once

#include "fovea/models/unetr_config.h"
#include "fovea/parallel/plan.h"

namespace fovea::models {

parallel::ParallelPlan parallel_plan(const UnetrConfig& config);

}  // namespace fovea::models
