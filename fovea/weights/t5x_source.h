// The state of an optimizer in a checkpoint of t5x.
#pragma once

#include <memory>
#include <string>

#include "fovea/weights/optimizer_source.h"

namespace fovea::weights {

// The moments of optax's transformations by torch's names. Throws what T5xFolder throws.
std::unique_ptr<OptimizerSource> open_t5x_source(const std::string& path);

}  // namespace fovea::weights
