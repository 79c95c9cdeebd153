#pragma once

#include "fovea/models/sap_config.h"
#include "fovea/parallel/plan.h"

namespace fovea::models {

parallel::ParallelPlan parallel_plan(const SapConfig& config);

}  // namespace fovea::models
