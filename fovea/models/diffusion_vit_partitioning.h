#pragma once

#include "fovea/models/diffusion_vit_config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

parallel::Partitioning partitioning_of(const DiffusionVitConfig& config);

}  // namespace fovea::models
