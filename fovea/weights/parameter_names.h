// The names that parameters of Fovea's models have.
#pragma once

#include <string>

namespace fovea::weights {

// False for a name that no model has: what a table of another system passes on as it stands is
// held against this, where no model is named that could tell.
bool is_parameter_name(const std::string& name);

}  // namespace fovea::weights
