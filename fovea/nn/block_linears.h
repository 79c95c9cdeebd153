// The linear layers of transformer blocks: where most of a vision transformer's products are.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fovea/nn/linear.h"
#include "fovea/nn/unit.h"

namespace fovea::nn {

using NamedLinears = std::vector<std::pair<std::string, LinearImpl*>>;

// Those of attention and of the MLP of each block, by path, in the model's order. What touches
// pixels, conditions and classes (patches, positions, heads) is not among them. They belong to the
// model.
NamedLinears block_linears(UnitImpl& model);

}  // namespace fovea::nn
