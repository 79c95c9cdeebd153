// Which model the config.json of a repository is of.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "fovea/core/json.h"

namespace fovea::hub {

struct PublishedModel {
  // The section `model` of a recipe: its name, a preset where there is one, what differs from it.
  nlohmann::json section;
  // The sizes of the weights count more than those here, as of every preset.
  bool is_preset = false;
  // Of a ViT of transformers without a classifier: the file may have a pooler.
  bool may_have_pooler = false;
};

// config: that of timm (architecture, model_args, pretrained_cfg), or of transformers' ViT, DeiT
// and DINOv2 (model_type), whose preprocessor_config.json says how images are prepared. Values are
// passed on as they are: who reads the section checks them. Throws DataError: another kind of
// model, or parts that are not what they should be.
PublishedModel read_published_model(const JsonValue& config,
                                    const std::optional<JsonValue>& preprocessor);

}  // namespace fovea::hub
