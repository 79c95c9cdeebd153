// From a config or a name to a model.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/models/model_config.h"

namespace fovea::models {

// Structure only: weights hold no values until init_weights or load_weights; on the meta device
// nothing is allocated. Throws ConfigError with every issue of the config.
ModelPtr build_model(const ModelConfig& config, at::Device device = at::kCPU);

// The names of all presets, e.g. "vit_small_patch16_224" (timm's names), in the order of
// the tables.
std::vector<std::string> list_models();

bool is_model_name(const std::string& text);

// What to say where no model has this name: the nearest one, or how to see them all.
std::string hint_for_model(const std::string& unknown);

// The config of a preset. Throws ConfigError with the nearest names.
ModelConfig named_config(const std::string& preset);

// The names of all its parameters.
std::set<std::string> names_of_parameters(const ModelConfig& config);
// Attention heads; of a model around an encoder those of the encoder; 0: of a model that another
// program registers.
int64_t num_heads_of(const ModelConfig& config);

ModelPtr build_named(const std::string& preset, at::Device device = at::kCPU);

}  // namespace fovea::models
