// Hydra's command line.
#pragma once

#include <string>

#include "fovea/config/node.h"

namespace fovea::recipe_import {

enum class HydraAction { kChange, kAdd, kPut, kDelete };  // key=v, +key=v, ++key=v, ~key

struct HydraOverride {
  std::string text;  // as it was given
  HydraAction action = HydraAction::kChange;
  std::string key;    // "optimizer.lr", "model", "db@backup"
  std::string value;  // "" of ~key
  bool has_value = false;
};

HydraOverride parse_hydra_override(const std::string& text);

// A value of a composed configuration.
void apply_hydra_override(const HydraOverride& change, ConfigNode& root);

}  // namespace fovea::recipe_import
