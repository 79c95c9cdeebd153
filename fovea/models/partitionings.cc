#include "fovea/models/partitionings.h"

#include "fovea/models/diffusion_vit_partitioning.h"
#include "fovea/models/mae_partitioning.h"
#include "fovea/models/sap_partitioning.h"
#include "fovea/models/t2t_vit_partitioning.h"
#include "fovea/models/unetr_partitioning.h"
#include "fovea/models/vit_partitioning.h"

namespace fovea::models {
namespace {

parallel::Partitioning partitioning_of(const OwnModelConfig& config) {
  return config.value().partitioning();
}

}  // namespace

parallel::Partitioning partitioning_of(const ModelConfig& config) {
  return config.visit_value([](const auto& chosen) { return partitioning_of(chosen); });
}

}  // namespace fovea::models
