// How a ViT is shared out.
#pragma once

#include <string>
#include <vector>

#include "fovea/models/vit_config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::models {

// A ViT whose parameters' names start with `prefix`. taps: see add_blocks.
void add_vit(parallel::Partitioning& partitioning, const VitConfig& config,
             const std::string& prefix, const std::vector<int64_t>& taps = {});

parallel::Partitioning partitioning_of(const VitConfig& config);

}  // namespace fovea::models
