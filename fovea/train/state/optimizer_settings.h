// The optimizer of a recipe as the param_groups of torch (of timm, for LAMB) describe it: to write
// such groups, and to compare with those of a file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/train/recipe/config.h"
#include "fovea/weights/moments.h"

namespace fovea::train {

using OptimizerSettings = std::map<std::string, weights::TorchObject>;

// All but lr, weight_decay and lr_scale, which groups may have each for itself. Muon's: those of
// the matrices, or of the rest, which is AdamW's.
OptimizerSettings torch_settings(const optim::OptimConfig& config, bool is_matrix = false);

// "betas[1] 0.95 there, 0.98 here": where the groups of a state say otherwise than the recipe. Not
// the learning rate, and not which loops torch runs.
std::vector<std::string> differences_of_settings(const weights::NamedMoments& moments,
                                                 const optim::OptimConfig& config);

// The groups that timm makes of the model's trained parameters: without weight decay, then with; or
// by layer, where the learning rate falls from layer to layer. Muon's matrices stand in groups of
// their own. lr: the rate of the next step, before lr_scale; peak_lr goes to initial_lr, which
// torch's schedulers go on from. matrices: names of Muon's.
std::vector<weights::OptimizerGroup> torch_groups(const optim::OptimConfig& config,
                                                  const models::Model& model, double lr,
                                                  const std::vector<std::string>& matrices = {});

}  // namespace fovea::train
