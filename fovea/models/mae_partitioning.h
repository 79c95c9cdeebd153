#pragma once

#include "fovea/models/mae_config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

parallel::Partitioning partitioning_of(const MaeConfig& config);

}  // namespace fovea::models
