// The options that predict, explain and eval share: which model, which weights, where.
#pragma once

#include <string>

#include "apps/fovea/command_line.h"
#include "fovea/train/inference.h"

namespace fovea::app {

struct InferenceArguments {
  std::string target;
  train::InferenceOptions options;
  int64_t threads = 0;

  // The target may be left out where --model names a preset.
  train::Inference load() const;
};

// Adds the positional target, --model, --weights, --checkpoint, --variables, --device, --dtype and
// --threads.
void add_inference_options(Command command, InferenceArguments& arguments);

}  // namespace fovea::app
