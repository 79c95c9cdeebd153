// Which optimizer left a state.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "fovea/weights/optimizer_kind.h"
#include "fovea/weights/optimizer_state.h"

namespace fovea::weights {

// By the settings of the groups; where there are none, by what is kept, the names of `slots`.
// Throws CheckpointError: several, or one that Fovea has not.
const OptimizerKind& kind_of_state(const std::vector<OptimizerGroup>& groups,
                                   const std::set<std::string>& slots, const std::string& path);

}  // namespace fovea::weights
