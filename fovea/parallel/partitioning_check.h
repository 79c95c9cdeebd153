// Whether a model's layers can be shared out as a config asks, before anything is built.
#pragma once

#include "fovea/parallel/config.h"
#include "fovea/parallel/partitioning.h"

namespace fovea::parallel {

// Issues of the keys tp, cp, cp_method and sequence_parallel: heads and widths that do not divide,
// with the numbers that would, drops that a ring cannot draw, and tokens that cannot be shared out.
void check_partitioning(const Partitioning& partitioning, const ParallelConfig& config,
                        ConfigIssues& issues);

}  // namespace fovea::parallel
