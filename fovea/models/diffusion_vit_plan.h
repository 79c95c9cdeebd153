#pragma once

#include "fovea/models/diffusion_vit_config.h"
#include "fovea/parallel/plan.h"

namespace fovea::models {

parallel::ParallelPlan parallel_plan(const DiffusionVitConfig& config);

}  // namespace fovea::models
