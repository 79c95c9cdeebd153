// What a weights file of Fovea's says of itself beside its tensors, so that it can be used alone:
// the recipe, and the names of the classes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fovea/train/recipe/config.h"

namespace fovea::train {

using Metadata = std::map<std::string, std::string>;

Metadata own_metadata(const TrainConfig& config, const std::vector<std::string>& class_names);

// The recipe in a file's metadata, changed by overrides; nothing where it has none. path: for
// messages. Throws ConfigError.
std::optional<TrainConfig> config_of(const Metadata& metadata, const std::string& path,
                                     const std::vector<std::string>& overrides = {});
// Empty where it says nothing. Throws DataError.
std::vector<std::string> class_names_of(const Metadata& metadata, const std::string& path);

// "model.num_heads: 6 in the file, 8 here": keys that change what a model of the same shapes
// computes, where the file's own model has other values. Rates of dropout, initialisation and
// preprocessing are not among them, nor sizes that loading adapts or refuses itself.
std::vector<std::string> model_differences(const models::ModelConfig& of_file,
                                           const models::ModelConfig& here);

// The same of a file, where it holds its model. What it holds of a newer or older Fovea cannot be
// read and compared: a warning says so.
std::vector<std::string> differences_of_weights(const std::string& path,
                                                const models::ModelConfig& here);

// Names from a file that somebody names: one a line, or JSON: a list, a map of numbers to names, or
// Hugging Face's and timm's config.json (id2label, label_names). Throws DataError.
std::vector<std::string> read_class_names(const std::string& path);
// The first file beside the weights that has as many names as there are classes: STEM.classes.txt,
// class_names.txt, classes.txt, config.json. Empty: none has.
std::vector<std::string> class_names_beside(const std::string& weights, int64_t num_classes);

}  // namespace fovea::train
