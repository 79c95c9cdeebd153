// Weights on the Hugging Face hub where a path of weights may stand, and which model they are of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/hub/hub_name.h"
#include "fovea/hub/repository.h"
#include "fovea/train/recipe/config.h"

namespace fovea::train {

// Of "hf-hub:ORG/NAME[@REVISION]", or of one of timm's names with its tag under which no file
// stands, "vit_small_patch16_224.augreg_in21k". Nothing: it is neither. Throws ConfigError: it
// begins as such a name, and is none.
std::optional<hub::HubName> hub_name_of(const std::string& text);

struct PublishedConfig {
  TrainConfig recipe;            // with the model alone
  bool is_preset = false;        // see WeightsSource
  bool may_have_pooler = false;  // see hub::PublishedModel
};

// Fetches config.json alone. Nothing: there is none, or it says of no model. Throws ConfigError: a
// model that there is not here; DataError: see hub::read_published_model.
std::optional<PublishedConfig> fetch_config(hub::Repository& repository,
                                            const std::vector<std::string>& overrides);

struct PublishedWeights {
  std::string weights{};                  // the file
  std::optional<PublishedConfig> config;  // of their model; nothing: the file is to say it itself
};

// Where config.json is of a model that there is here, fetches the weights, too. Throws as
// fetch_config and hub::find_weights.
PublishedWeights fetch_published(hub::Repository& repository,
                                 const std::vector<std::string>& overrides);

}  // namespace fovea::train
