// Recipes that need not say how to train: what the commands start from that only use a model.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fovea/train/recipe/config.h"

namespace fovea::train {

// A recipe of which run.dir and the length of the run may be missing, such as one of a model alone.
TrainConfig load_model_recipe(const std::string& path,
                              const std::vector<std::string>& overrides = {});
// That of a model by its name, which has nothing else. Throws ConfigError with the nearest names.
TrainConfig recipe_of_model(const std::string& name,
                            const std::vector<std::string>& overrides = {});

// That of a section `model` as a repository of the hub has it; source: the file, for messages.
TrainConfig recipe_of_section(const nlohmann::json& section, const std::string& source,
                              const std::vector<std::string>& overrides = {});

bool is_recipe(const std::string& path);  // by its ending; it is there

// The model of a name, a recipe or a run folder: what --model takes.
struct NamedModel {
  TrainConfig config;      // of a name, a recipe that has nothing else
  bool is_preset = false;  // a name
};
NamedModel find_model(const std::string& source);

}  // namespace fovea::train
