// Whether a state that was read is whole.
#pragma once

#include <string>

#include "fovea/weights/optimizer_kind.h"
#include "fovea/weights/optimizer_state.h"

namespace fovea::weights {

// Throws CheckpointError: keys that no group has, a moment that is missing, of another shape than
// the others, or of values that none can have.
void check_state(const OptimizerState& state, const OptimizerKind& kind, const std::string& path);

}  // namespace fovea::weights
