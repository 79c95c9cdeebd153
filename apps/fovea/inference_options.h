// The options that predict, explain and eval share: which model, which weights, where.
#pragma once

#include <string>

#include "fovea/train/inference.h"

namespace CLI {
class App;
}

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
void add_inference_options(CLI::App& command, InferenceArguments& arguments);

}  // namespace fovea::app
