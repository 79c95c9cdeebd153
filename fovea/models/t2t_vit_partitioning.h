#pragma once

#include "fovea/models/t2t_vit_config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

parallel::Partitioning partitioning_of(const T2tVitConfig& config);

}  // namespace fovea::models
