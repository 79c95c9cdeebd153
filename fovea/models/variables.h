// Which of a model's variables the channels of a batch are.
#pragma once

#include <string>
#include <vector>

#include "fovea/models/model.h"
#include "fovea/models/vit_config.h"

namespace fovea::models {

// The index in config.variables of each channel; channels: their names, empty: all variables in
// their order, of single channels the first. Throws ConfigError: a name that the model does not
// have, one that stands there twice, several for a model of single channels.
std::vector<int64_t> variable_ids(const VitConfig& config,
                                  const std::vector<std::string>& channels);

// Throws ConfigError where data with these channel names (empty: it names none) is not for the
// model: as variable_ids; or it names none and the model cannot know which of its variables a
// single channel is. `source` begins the message: "data set ct". A model without variables takes
// any.
void check_channels(const Model& model, const std::vector<std::string>& channels,
                    const std::string& source);

}  // namespace fovea::models
