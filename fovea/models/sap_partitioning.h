#pragma once

#include "fovea/models/sap_config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

parallel::Partitioning partitioning_of(const SapConfig& config);

}  // namespace fovea::models
