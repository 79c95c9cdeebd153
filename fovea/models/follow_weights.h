// What the shapes of weights say of the model that they are of.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fovea/models/model_config.h"
#include "fovea/nn/tensor_file.h"

namespace fovea::models {

struct FollowedConfig {
  ModelConfig config;
  std::vector<std::string> changes;  // "11 classes" ...; empty: the shapes are the preset's
};

// A preset with the number of classes, channels and the side of the images that the weights, under
// Fovea's names, have: those of a model that was fine-tuned. What the shapes leave open stays, and
// so does all else, which loading holds against the weights. Of a ViT and T2T-ViT; others stay.
FollowedConfig follow_weights(const ModelConfig& preset, const nn::NamedTensors& weights);

}  // namespace fovea::models
