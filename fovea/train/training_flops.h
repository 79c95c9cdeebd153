// The arithmetic that a training asks for, whatever computes it.
#pragma once

#include "fovea/models/registry.h"

namespace fovea::train {

// Of one image: 2 for each multiply-add of a matrix product, see Note [Counting] in
// models/summary.h; forward, and backward taken as twice that. What is computed a second time
// (recompute), and what a frozen part saves, is left out of account.
double training_flops_per_image(const models::ModelConfig& model);

}  // namespace fovea::train
