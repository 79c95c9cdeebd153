#include "fovea/models/plans.h"

#include "fovea/models/diffusion_vit_plan.h"
#include "fovea/models/mae_plan.h"
#include "fovea/models/sap_plan.h"
#include "fovea/models/t2t_vit_plan.h"
#include "fovea/models/unetr_plan.h"
#include "fovea/models/vit_plan.h"

namespace fovea::models {
namespace {

parallel::ParallelPlan parallel_plan(const OwnModelConfig& config) { return config.value().plan(); }

}  // namespace

parallel::ParallelPlan parallel_plan(const ModelConfig& config) {
  return config.visit_value([](const auto& chosen) { return parallel_plan(chosen); });
}

}  // namespace fovea::models
