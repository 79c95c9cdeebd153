#pragma once

#include "fovea/models/unetr_config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

parallel::Partitioning partitioning_of(const UnetrConfig& config);

}  // namespace fovea::models
