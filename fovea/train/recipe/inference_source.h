// Of a command's target and options: which model, with which weights, of which run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fovea/models/model_config.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/recipe/inference.h"

namespace fovea::train {

// Where the weights lie and of which model they are.
struct WeightsSource {
  models::ModelConfig model;
  bool is_preset = false;   // classes, channels and size are those of the weights
  bool is_alone = false;    // no recipe: data is prepared as the model expects it
  bool is_of_file = false;  // the model is what the weights file says, as it stands there
  std::string weights;      // empty: step-0 weights
  std::vector<std::string> class_names;
  std::optional<TrainConfig> config;
  models::LoadOptions load;
};

// target: a run folder, a recipe, a weights file, a name on the hub, a model's name, or empty,
// where the options name what there is. Throws ConfigError where it is none of these, or an option
// says nothing of it.
WeightsSource find_source(const std::string& target, const InferenceOptions& options);

// Whether the first word behind a command is such a target, or already one of its inputs because
// the options say it all: with both of --model and --weights it is an input; beside --weights a
// run, a recipe or a preset is a target; beside --model what is called as weights are.
bool is_target(const std::string& word, const InferenceOptions& options);

}  // namespace fovea::train
