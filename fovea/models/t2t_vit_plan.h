#pragma once

#include "fovea/models/t2t_vit_config.h"
#include "fovea/parallel/plan.h"

namespace fovea::models {

parallel::ParallelPlan parallel_plan(const T2tVitConfig& config);

}  // namespace fovea::models
