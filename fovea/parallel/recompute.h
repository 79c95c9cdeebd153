// Recompute (Chen et al. 2016, "Training deep nets with sublinear memory cost"): the forward of a
// unit runs without keeping anything for backward, and again in backward.
#pragma once

#include <torch/nn/module.h>

#include <string>

namespace fovea::parallel {

// what: as parallel.recompute; every: with every_n, which blocks. Losses and gradients are bitwise
// what they are without: drops are a function of (seed, step, layer, sample), and the scopes of
// forward are in force when it runs again. To be called when what else stands around the units is
// set, since it goes inside of that. Throws ConfigError where the model has no such unit.
void recompute_in_backward(torch::nn::Module& model, const std::string& what, int64_t every);

}  // namespace fovea::parallel
