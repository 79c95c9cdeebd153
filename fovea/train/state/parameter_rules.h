// What a model says of its parameters to whoever looks for them in the state of an optimizer.
#pragma once

#include <functional>
#include <string>

#include "fovea/models/model.h"
#include "fovea/weights/optimizer_names.h"

namespace fovea::train {

// The model outlives them.
weights::ParameterRules parameter_rules(const models::Model& model,
                                        std::function<bool(const std::string&)> is_trained);

}  // namespace fovea::train
